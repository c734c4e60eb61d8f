"""Stands in for packages that a framework imports and a recording does not need, or that the machine lacks.

    import stand_ins
    stand_ins.install(["ray", "vllm", "wandb"])      # whatever is imported of them is a name that does nothing
    stand_ins.install_flash_attention()              # its kernels are PyTorch's own copy of FlashAttention 2
    stand_ins.install_pydantic()                     # what configuration classes need of pydantic 2

Nothing stands in for a package that can be imported, except flash-attn's kernels.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types

import pydantic_stand_in


class Made(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Made(name, (Anything,), {})


class Anything(metaclass=Made):
    """Whatever is imported of a package that is not there: a base class, a decorator, a value."""

    def __init__(self, *_, **__):
        pass

    def __class_getitem__(cls, _):
        return cls

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *arguments, **_):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else Anything()


class StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {}) if name in ("Again", "ZMQError") else Made(name, (Anything,), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `names` and all below them; `fill[module]` completes one that needs more than names."""

    def __init__(self, names, version, fill):
        self.names, self.version, self.fill = names, version, fill

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        module.__version__ = self.version
        if module.__name__ in self.fill:
            self.fill[module.__name__](module)


def fill_ray(module):
    def remote(*arguments, **_):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else lambda wrapped: wrapped

    module.remote = remote
    module.get = lambda value, **_: value
    module.get_gpu_ids = lambda: [0]


def absent(names):
    return [name for name in names if name not in sys.modules and importlib.util.find_spec(name) is None]


def install(names, version="9.9.9", fill=None):
    """Stands in for those of `names` that are not installed; `fill`: module name to a function of the module."""
    sys.meta_path.insert(0, Finder(set(absent(names)), version, {"ray": fill_ray, **(fill or {})}))


def install_pydantic():
    if absent(["pydantic"]):
        sys.modules["pydantic"] = pydantic_stand_in


def fill_flash_attention(module):
    import torch

    forward = torch.ops.aten._flash_attention_forward

    def scale_of(scale, q):
        return scale if scale is not None else q.shape[-1] ** -0.5

    def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
                               softmax_scale=None, causal=False, **_):
        return forward(q, k, v, cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k), dropout_p, causal, False,
                       scale=scale_of(softmax_scale, q))[0]

    def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, **_):
        return forward(q, k, v, None, None, q.shape[1], k.shape[1], dropout_p, causal, False,
                       scale=scale_of(softmax_scale, q))[0]

    module.flash_attn_varlen_func, module.flash_attn_func = flash_attn_varlen_func, flash_attn_func


class FlashAttention(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The package's front: its functions are PyTorch's, its other modules (padding, Triton's cross-entropy) its own where
    `folder` holds them."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        if name in ("flash_attn", "flash_attn.flash_attn_interface"):
            spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
            spec.submodule_search_locations = [self.folder] if self.folder else []
            return spec

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        module.__version__ = "2.8.3"
        fill_flash_attention(module)


def install_flash_attention():
    spec = importlib.machinery.PathFinder.find_spec("flash_attn")
    sys.meta_path.insert(0, FlashAttention(list(spec.submodule_search_locations)[0] if spec else None))
    from transformers.utils import import_utils  # it asks which distribution the package came with

    import_utils.PACKAGE_DISTRIBUTION_MAPPING.setdefault("flash_attn", ["flash-attn"])
