#include "planner/writers/json.h"

namespace headroom::writers {

const char* report_schema() {
  return R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "headroom.report/1",
  "title": "Memory of a run, by device, phase, process and component. Sizes are bytes.",
  "type": "object",
  "required": ["schema", "title", "framework", "executor", "fits", "budget_bytes", "host_budget_bytes", "margin",
               "warnings", "assumptions", "versions", "devices"],
  "additionalProperties": false,
  "properties": {
    "schema": {"const": "headroom.report/1"},
    "title": {"type": "string"},
    "file": {"type": "string", "description": "the configuration, as it was named"},
    "verdict": {"type": "string", "description": "fits or not, by how much, where, why; a sentence for people"},
    "understood": {"type": "object", "additionalProperties": {"type": "string"},
                   "description": "what the configuration says: model, GPUs, lengths, sharding …, for people"},
    "framework": {"type": "string"},
    "executor": {"enum": ["closed_form", "simulator", "gpu"]},
    "fits": {"type": "boolean", "description": "peak_device + margin_bytes <= budget_bytes everywhere, and the host's likewise"},
    "budget_bytes": {"type": "integer", "description": "device memory a GPU may use"},
    "host_budget_bytes": {"type": ["integer", "null"], "description": "a node; null: unchecked"},
    "margin": {"type": "integer", "description": "the largest margin of any phase"},
    "warnings": {"type": "array", "items": {"$ref": "#/$defs/warning"}},
    "assumptions": {"type": "array", "items": {"type": "string"}},
    "undetermined": {"type": "array", "items": {"type": "string"},
                     "description": "why nobody knows whether the run fits; fits is false"},
    "versions": {"type": "object", "additionalProperties": {"type": "string"}},
    "other_seconds": {"type": "number", "description": "of every step, given by --other-seconds; in no phase"},
    "devices": {"type": "array", "items": {"$ref": "#/$defs/device"}},
    "solved": {"type": "object", "required": ["knob", "value"], "additionalProperties": false,
               "properties": {"knob": {"type": "string"},
                              "value": {"type": ["string", "null"], "description": "null: no value fits"},
                              "next_that_does_not_fit": {"type": "string"},
                              "fits": {"$ref": "#/$defs/tried"}, "beyond": {"$ref": "#/$defs/tried"}}},
    "search": {"$ref": "#/$defs/search"},
    "choices": {"type": "array", "items": {"$ref": "#/$defs/choice"}},
    "cards": {"type": "array", "description": "of a plan for several cards: each one's best",
              "items": {"type": "object", "required": ["gpu", "fits"], "additionalProperties": false,
                        "properties": {"gpu": {"type": "string"}, "fits": {"type": "boolean"},
                                       "refusal": {"type": "string", "description": "why there is no plan for it"},
                                       "seconds_per_step": {"type": "number"}, "spare_bytes": {"type": "integer"},
                                       "changes": {"type": "object",
                                                   "additionalProperties": {"type": "string"}}}}},
    "reasons": {"type": "array", "items": {"$ref": "#/$defs/reason"}},
    "single_changes": {"type": "array", "items": {"$ref": "#/$defs/single_change"}},
    "pairs": {"type": "array", "items": {"$ref": "#/$defs/single_change"}},
    "missing_at_least": {"type": "integer", "description": "of a run that stops: what it needs more, at least"},
    "techniques": {"type": "array", "items": {
      "type": "object", "required": ["name", "what", "changes", "changes_numerics", "saved_bytes"],
      "additionalProperties": false,
      "properties": {"name": {"type": "string"}, "what": {"type": "string"}, "changes": {"type": "object"},
                     "changes_numerics": {"type": "boolean"},
                     "seconds": {"type": "number", "description": "a step, more than now"},
                     "saved_bytes": {"type": "object", "additionalProperties": {"type": "integer"},
                                     "description": "by phase, at least 1 % of the budget"}}}},
    "evidence": {"type": "array", "description": "how each figure of engines, and each part of processes and roles, is known",
      "items": {"type": "object", "additionalProperties": false,
        "required": ["of", "component", "known", "because"], "properties": {
          "of": {"type": "string", "description": "an engine's or a role's name, or process: what each holds beside its allocator"},
          "component": {"type": "string"},
          "bytes": {"type": "integer"},
          "known": {"enum": ["recorded", "read in source", "inferred"]},
          "because": {"type": "string"}}}},
    "would_fit": {"type": "array", "items": {
      "type": "object", "required": ["name", "value", "what", "spare_bytes", "limiting_phase"],
      "additionalProperties": false,
      "properties": {"name": {"type": "string"}, "value": {"type": "string"}, "what": {"type": "string"},
                     "spare_bytes": {"type": "integer"}, "limiting_phase": {"type": "string"}}}}
  },
  "$defs": {
    "components": {
      "type": "object",
      "description": "bytes by component, zeros left out; the values sum to the peak they explain",
      "propertyNames": {"enum": ["weights", "gradients", "master_weights", "optimizer", "activations", "logits",
        "kv_cache", "temporaries", "communication", "gathered_parameters", "staging", "allocator_slack", "context",
        "communicators", "workspaces", "engine_weights", "engine_kv", "engine_graphs", "engine_other", "other"]},
      "additionalProperties": {"type": "integer"}
    },
    "tried": {
      "type": "object",
      "required": ["value", "fits"],
      "additionalProperties": false,
      "properties": {
        "value": {"type": "string"}, "fits": {"type": "boolean"}, "peak_device": {"type": "integer"},
        "spare_bytes": {"type": "integer"}, "limiting_phase": {"type": "string"},
        "refused": {"type": "string", "description": "why the framework takes no such run; then nothing else is known"}
      }
    },
    "warning": {
      "type": "object",
      "required": ["code", "message"],
      "additionalProperties": false,
      "properties": {
        "code": {"type": "string"}, "message": {"type": "string"}, "file": {"type": "string"},
        "line": {"type": "integer"}, "key": {"type": "string"}
      }
    },
    "device": {
      "type": "object",
      "required": ["device", "alike", "phases"],
      "additionalProperties": false,
      "properties": {
        "device": {"type": "integer", "description": "index of the GPU shown"},
        "alike": {"type": "integer", "description": "GPUs that behave the same, itself included"},
        "pool": {"type": "string"},
        "budget_bytes": {"type": "integer", "description": "of its pool, where that has one of its own"},
        "phases": {"type": "array", "items": {"$ref": "#/$defs/phase"}},
        "engines": {"type": "array", "items": {"$ref": "#/$defs/engine"}},
        "holders": {"type": "array", "items": {"$ref": "#/$defs/holder"}}
      }
    },
    "engine": {
      "type": "object",
      "description": "what a rollout engine's start-up log prints on this GPU",
      "required": ["engine", "release", "before_loading", "weights", "activation_peak", "non_torch", "kv_cache",
                   "kv_tokens", "kv_blocks", "graphs", "max_concurrency", "asleep"],
      "additionalProperties": false,
      "properties": {
        "engine": {"type": "string"},
        "release": {"type": "string", "description": "of its library; empty: unknown"},
        "before_loading": {"type": "integer", "description": "context and communicators"},
        "weights": {"type": "integer"},
        "activation_peak": {"type": "integer", "description": "of the start-up profile, beyond weights"},
        "non_torch": {"type": "integer", "description": "growth outside the allocator while profiling"},
        "kv_cache": {"type": "integer"},
        "kv_tokens": {"type": "integer", "description": "that the KV cache holds at full attention"},
        "kv_blocks": {"type": "integer"},
        "graphs": {"type": "integer"},
        "max_concurrency": {"type": "number", "description": "requests of the longest length at once"},
        "asleep": {"type": "integer", "description": "all that it holds while it sleeps"}
      }
    },
    "holder": {
      "type": "object",
      "required": ["module", "operation", "component", "bytes", "blocks"],
      "additionalProperties": false,
      "properties": {
        "module": {"type": "string"}, "operation": {"type": "string"}, "component": {"type": "string"},
        "bytes": {"type": "integer"}, "blocks": {"type": "integer"}
      }
    },
    "phase": {
      "type": "object",
      "required": ["step", "phase", "peak_device", "peak_host", "margin_bytes", "seconds", "at_peak_device",
                   "at_peak_host", "processes"],
      "additionalProperties": false,
      "properties": {
        "step": {"type": "integer", "description": "-1 is init, the first step is 0"},
        "phase": {"type": "string"},
        "within": {"type": "string", "description": "the phase of the same step that covers this one"},
        "peak_device": {"type": "integer", "description": "all memory in use on the card"},
        "expected_peak_device": {"type": "integer", "description": "at expected lengths (--lengths)"},
        "peak_host": {"type": "integer", "description": "of a node"},
        "margin_bytes": {"type": "integer"},
        "seconds": {"type": "number"},
        "seconds_by": {
          "type": "object", "additionalProperties": false,
          "description": "what the phase waits for at each moment; they sum to its seconds",
          "properties": {
            "host": {"type": "number"}, "matrix": {"type": "number"}, "memory": {"type": "number"},
            "copies": {"type": "number"}, "network": {"type": "number"}, "waiting": {"type": "number"}
          }
        },
        "bounded": {"type": "boolean", "description": "an upper bound rather than an executed order"},
        "at_peak_device": {"$ref": "#/$defs/components"},
        "at_peak_host": {"$ref": "#/$defs/components"},
        "processes": {"type": "array", "items": {"$ref": "#/$defs/process"}}
      }
    },
    "process": {
      "type": "object",
      "required": ["process", "roles", "rank", "allocated_start", "peak_allocated", "allocated_end", "reserved_start",
                   "peak_reserved", "reserved_end", "reserved_after_empty", "peak_active", "inactive_split_end",
                   "fragmentation_at_peak", "n_allocs", "segments", "retries", "outside", "at_peak_allocated"],
      "additionalProperties": false,
      "properties": {
        "process": {"type": "string"},
        "roles": {"type": "array", "items": {"type": "string"}},
        "rank": {"type": "integer"},
        "allocated_start": {"type": "integer"}, "peak_allocated": {"type": "integer"}, "allocated_end": {"type": "integer"},
        "reserved_start": {"type": "integer"}, "peak_reserved": {"type": "integer"}, "reserved_end": {"type": "integer"},
        "reserved_after_empty": {"type": ["integer", "null"]},
        "peak_active": {"type": "integer"}, "inactive_split_end": {"type": "integer"},
        "fragmentation_at_peak": {"type": "number"},
        "n_allocs": {"type": "integer"}, "segments": {"type": "integer"}, "retries": {"type": "integer"},
        "outside": {"type": "integer", "description": "context, communicators and libraries of this process"},
        "at_peak_allocated": {"$ref": "#/$defs/components"},
        "out_of_memory": {"type": "string"}
      }
    },
    "reason": {
      "type": "object",
      "required": ["device", "step", "phase", "component", "bytes", "reason"],
      "additionalProperties": false,
      "properties": {
        "device": {"type": "integer"}, "step": {"type": "integer"}, "phase": {"type": "string"},
        "component": {"type": "string"}, "bytes": {"type": "integer"},
        "reason": {"type": "string", "description": "what it is and what makes it smaller"}
      }
    },
    "single_change": {
      "type": "object",
      "required": ["changes", "fits", "seconds_per_step", "peak_device", "limiting_phase", "spare_bytes"],
      "additionalProperties": false,
      "properties": {
        "changes": {"type": "object", "additionalProperties": {"type": "string"}},
        "fits": {"type": "boolean"},
        "seconds_per_step": {"type": "number", "description": "0 where the run breaks before its end"},
        "peak_device": {"type": "integer"}, "limiting_phase": {"type": "string"},
        "spare_bytes": {"type": "integer"}
      }
    },
    "search": {
      "type": "object",
      "required": ["evaluated", "pruned", "feasible", "tried", "confirmed", "seconds"],
      "additionalProperties": false,
      "properties": {
        "space": {"type": "number", "description": "configurations, knobs that only the simulator tells apart included"},
        "evaluated_per_second": {"type": "number", "description": "of the proof"},
        "accounted_per_second": {"type": "number", "description": "decided by the proof, most without a run"},
        "stopped": {"const": true, "description": "by an interrupt: what was not looked at may be faster"},
        "evaluated": {"type": "integer"}, "pruned": {"type": "integer"}, "feasible": {"type": "integer"},
        "tried": {"type": "integer", "description": "run in the simulator"},
        "confirmed": {"type": "integer", "description": "of those: fit there"}, "seconds": {"type": "number"},
        "proof": {"$ref": "#/$defs/proof"}
      }
    },
    "proof": {
      "type": "object",
      "description": "what became of every configuration of the space: the counts and the winner add up to it",
      "required": ["space", "refused", "too_large", "too_large_simulated", "slower", "undecided", "complete"],
      "additionalProperties": false,
      "properties": {
        "space": {"type": "number"}, "refused": {"type": "number"},
        "too_large": {"type": "number", "description": "by the closed form"},
        "too_large_simulated": {"type": "number"}, "slower": {"type": "number"}, "undecided": {"type": "number"},
        "evaluated": {"type": "integer"}, "simulated": {"type": "integer"}, "complete": {"type": "boolean"}
      }
    },
    "choice": {
      "type": "object",
      "required": ["rank", "changes", "seconds_per_step", "peak_device", "limiting_phase", "spare_bytes", "confirmed"],
      "additionalProperties": false,
      "properties": {
        "rank": {"type": "integer"},
        "changes": {"type": "object", "additionalProperties": {"type": "string"}},
        "seconds_per_step": {"type": "number"},
        "peak_device": {"type": "integer"}, "peak_host": {"type": "integer"},
        "limiting_phase": {"type": "string"},
        "spare_bytes": {"type": "integer"},
        "confirmed": {"type": "boolean", "description": "the simulator ran it"},
        "pareto": {"type": "boolean", "description": "no other is as good in seconds, spare and host memory, and better in one"},
        "fewest_changes": {"type": "boolean", "description": "the fewest changes within 2 % of the fastest; with --objective changes the fewest that fit"},
        "notes": {"type": "array", "items": {"type": "string"}},
        "parts": {"type": "array", "description": "of the first: each change against the choice without it",
                  "items": {"type": "object", "required": ["name", "changes", "saved_bytes", "fits_without"],
                            "additionalProperties": false,
                            "properties": {"name": {"type": "string"}, "changes": {"type": "object"},
                                           "seconds": {"type": "number"}, "fits_without": {"type": "boolean"},
                                           "saved_bytes": {"type": "object",
                                                           "additionalProperties": {"type": "integer"}}}}}
      }
    }
  }
}
)json";
}

}  // namespace headroom::writers
