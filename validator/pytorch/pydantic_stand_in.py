"""The part of pydantic 2 that DeepSpeed's configuration classes use, for a machine without it.

Fields with defaults, aliases and nested models; values turned into the fields' types; validators before and after; unknown
keys refused. Bounds are not checked: a recording's settings are known to be good.
"""

import copy
import enum
import inspect
import types
import typing

MISSING = object()
PositiveInt = int


class ValidationError(ValueError):
    pass


class FieldInfo:
    def __init__(self, default=MISSING, *, alias=None, default_factory=None, json_schema_extra=None, **_):
        self.default, self.alias, self.default_factory = default, alias, default_factory
        self.json_schema_extra = json_schema_extra

    def is_required(self):
        return self.default is MISSING and self.default_factory is None

    def get_default(self, **_):
        return self.default_factory() if self.default_factory else copy.deepcopy(self.default)


def Field(default=MISSING, **settings):
    return FieldInfo(default, **settings)


def ConfigDict(**settings):
    return settings


def plain(function):
    return function.__func__ if isinstance(function, (classmethod, staticmethod)) else function


def field_validator(*names, mode="after", **_):
    def mark(function):
        function = plain(function)
        function.validates = (names, mode)
        return function

    return mark


def model_validator(*, mode):
    def mark(function):
        function = plain(function)
        function.validates = (None, mode)
        return function

    return mark


def field_serializer(*_, **__):
    return lambda function: function


class Kind(type):
    def __new__(kind, name, bases, members):
        fields, validators, config = {}, [], {}
        for base in reversed(bases):
            fields.update(getattr(base, "model_fields", {}))
            validators += getattr(base, "model_validators", [])
            config.update(getattr(base, "model_config", {}))
        config.update(members.pop("model_config", {}))
        for key in members.get("__annotations__", {}):
            given = members.pop(key, MISSING)
            fields[key] = given if isinstance(given, FieldInfo) else FieldInfo(given)
        validators += [member for member in members.values() if hasattr(member, "validates")]
        members.update(model_fields=fields, model_validators=validators, model_config=config)
        return super().__new__(kind, name, bases, members)


def turned(value, kind):
    """`value` as the annotation `kind` has it."""
    if value is None or kind in (typing.Any, object):
        return value
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        kinds = [k for k in typing.get_args(kind) if k is not type(None)]
        for k in kinds:
            if isinstance(k, type) and isinstance(value, k):
                return value
        for k in kinds:
            try:
                return turned(value, k)
            except (TypeError, ValueError):
                continue
        raise ValidationError(f"expected {kind}, found {value!r}")
    if origin is not None or not isinstance(kind, type):
        return value
    if issubclass(kind, enum.Enum):
        return kind(value).value
    if issubclass(kind, BaseModel):
        return value if isinstance(value, kind) else kind(**value)
    if kind is bool and isinstance(value, str):
        return value.lower() in ("true", "1", "yes", "on")
    if kind in (int, float, str) and not isinstance(value, kind):
        return kind(value)
    return value


class BaseModel(metaclass=Kind):
    def __init__(self, **given):
        own = type(self)
        for check in own.model_validators:
            if check.validates == (None, "before"):
                given = check(own, given)
        kinds = typing.get_type_hints(own)
        names = {info.alias or name: name for name, info in own.model_fields.items()}
        names.update({name: name for name in own.model_fields})
        values = {}
        for key, value in given.items():
            if key not in names and own.model_config.get("extra") == "forbid":
                raise ValidationError(f"{own.__name__}: unknown key {key}")
            values[names.get(key, key)] = value
        self.__dict__["model_fields_set"] = set(values)
        for name, info in own.model_fields.items():
            if name not in values and info.is_required():
                raise ValidationError(f"{own.__name__}: expected {name}")
            values[name] = self.checked(name, values[name] if name in values else info.get_default(), kinds[name])
        self.__dict__.update(values)
        for check in own.model_validators:
            if check.validates == (None, "after"):
                check(self)

    def checked(self, name, value, kind):
        own = type(self)
        of_field = [check for check in own.model_validators if check.validates[0] and name in check.validates[0]]

        def run(mode, value):
            for check in of_field:
                if check.validates[1] == mode:
                    info = types.SimpleNamespace(field_name=name, data={})
                    value = check(own, value, info) if len(inspect.signature(check).parameters) > 2 else check(own, value)
            return value

        return run("after", turned(run("before", value), kind))

    def model_dump(self, **_):
        return {name: value.model_dump() if isinstance(value, BaseModel) else value
                for name, value in self.__dict__.items() if name in type(self).model_fields}

    dict = model_dump

    def __repr__(self):
        return f"{type(self).__name__}({self.model_dump()})"
