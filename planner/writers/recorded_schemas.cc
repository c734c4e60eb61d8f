#include "planner/writers/recorded_schemas.h"

namespace headroom::writers {

const char* replay_schema() {
  return R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "headroom.replay/1",
  "title": "What a recorded run's memory did, by device. Sizes are bytes; events count from 0, -1: before the first.",
  "type": "object",
  "required": ["schema", "file", "kind", "settings", "devices"],
  "additionalProperties": false,
  "properties": {
    "schema": {"const": "headroom.replay/1"},
    "file": {"type": "string"},
    "kind": {"enum": ["snapshot", "stream"]},
    "settings": {"type": "string", "description": "PYTORCH_CUDA_ALLOC_CONF of the recording"},
    "devices": {"type": "array", "items": {"$ref": "#/$defs/device"}}
  },
  "$defs": {
    "frame": {
      "type": "object",
      "required": ["name", "file", "line"],
      "additionalProperties": false,
      "properties": {"name": {"type": "string"}, "file": {"type": "string"}, "line": {"type": "integer"}}
    },
    "stack": {"type": "array", "items": {"$ref": "#/$defs/frame"}},
    "moment": {
      "type": "object",
      "required": ["event", "time_us", "allocated", "active", "reserved", "inactive_split", "blocks"],
      "additionalProperties": false,
      "properties": {
        "event": {"type": "integer"}, "time_us": {"type": "integer"}, "phase": {"type": "string"},
        "allocated": {"type": "integer"}, "active": {"type": "integer"}, "reserved": {"type": "integer"},
        "inactive_split": {"type": "integer"}, "blocks": {"type": "integer"}
      }
    },
    "setting": {
      "type": "object",
      "required": ["name", "conf", "empty_at_phase_ends"],
      "additionalProperties": false,
      "properties": {
        "name": {"type": "string"}, "conf": {"type": "string"}, "empty_at_phase_ends": {"type": "boolean"},
        "skipped": {"type": "string", "description": "why it was not tried"},
        "peak_allocated": {"type": "integer"}, "peak_reserved": {"type": "integer"},
        "reserved_end": {"type": "integer"}, "retries": {"type": "integer"},
        "device_allocs": {"type": "integer"}, "device_frees": {"type": "integer"}, "fits": {"type": "boolean"},
        "out_of_memory": {
          "type": "object",
          "required": ["event", "phase", "requested", "tried", "allocated", "reserved", "device_free"],
          "additionalProperties": false,
          "properties": {
            "event": {"type": "integer"}, "phase": {"type": "string"}, "requested": {"type": "integer"},
            "tried": {"type": "integer"}, "allocated": {"type": "integer"}, "reserved": {"type": "integer"},
            "device_free": {"type": "integer"}
          }
        }
      }
    },
    "device": {
      "type": "object",
      "required": ["device", "events", "actions", "missing", "start", "peak_allocated", "peak_reserved",
                   "peak_active", "end", "fragmentation", "holders", "pinned_segments", "phases", "out_of_memory"],
      "additionalProperties": false,
      "properties": {
        "device": {"type": "integer"},
        "events": {"type": "integer"},
        "actions": {"type": "object", "additionalProperties": {"type": "integer"}},
        "missing": {"type": "array", "items": {"type": "string"}, "description": "what is not known, and assumed"},
        "start": {"$ref": "#/$defs/moment"},
        "peak_allocated": {"$ref": "#/$defs/moment"},
        "peak_reserved": {"$ref": "#/$defs/moment"},
        "peak_active": {"type": "integer"},
        "end": {"$ref": "#/$defs/moment"},
        "fragmentation": {"type": "object", "additionalProperties": {"type": "integer"},
                          "description": "at the reserved peak"},
        "holders": {
          "type": "array",
          "items": {
            "type": "object",
            "required": ["bytes", "blocks", "unrecorded_blocks", "where", "stack_of_largest"],
            "additionalProperties": false,
            "properties": {
              "bytes": {"type": "integer"}, "blocks": {"type": "integer"}, "unrecorded_blocks": {"type": "integer"},
              "where": {"type": ["string", "null"]}, "stack_of_largest": {"$ref": "#/$defs/stack"}
            }
          }
        },
        "pinned_segments": {
          "type": "array",
          "items": {
            "type": "object",
            "required": ["address", "bytes", "in_use", "blocks"],
            "additionalProperties": false,
            "properties": {
              "address": {"type": "integer"}, "bytes": {"type": "integer"}, "in_use": {"type": "integer"},
              "blocks": {
                "type": "array",
                "items": {
                  "type": "object",
                  "required": ["bytes", "born", "died", "stack"],
                  "additionalProperties": false,
                  "properties": {
                    "bytes": {"type": "integer"}, "born": {"type": "integer"},
                    "died": {"type": ["integer", "null"]}, "stack": {"$ref": "#/$defs/stack"}
                  }
                }
              }
            }
          }
        },
        "phases": {
          "type": "array",
          "items": {
            "type": "object",
            "required": ["phase", "first_event", "events", "peak_allocated", "peak_reserved", "allocated_end",
                         "reserved_end"],
            "additionalProperties": false,
            "properties": {
              "phase": {"type": "string"}, "first_event": {"type": "integer"}, "events": {"type": "integer"},
              "peak_allocated": {"type": "integer"}, "peak_reserved": {"type": "integer"},
              "allocated_end": {"type": "integer"}, "reserved_end": {"type": "integer"}
            }
          }
        },
        "out_of_memory": {
          "type": "array",
          "items": {
            "type": "object",
            "required": ["event", "bytes", "device_free", "allocated", "reserved", "stack"],
            "additionalProperties": false,
            "properties": {
              "event": {"type": "integer"}, "bytes": {"type": "integer"}, "device_free": {"type": "integer"},
              "allocated": {"type": "integer"}, "reserved": {"type": "integer"}, "stack": {"$ref": "#/$defs/stack"}
            }
          }
        },
        "what_if": {
          "type": "object",
          "required": ["limit_bytes", "as_recorded", "settings", "advice", "export", "empty_at_phase_ends", "notes"],
          "additionalProperties": false,
          "properties": {
            "limit_bytes": {"type": ["integer", "null"]},
            "as_recorded": {"$ref": "#/$defs/setting"},
            "settings": {"type": "array", "items": {"$ref": "#/$defs/setting"}},
            "advice": {"type": "string"}, "export": {"type": ["string", "null"]},
            "empty_at_phase_ends": {"type": "boolean"},
            "notes": {"type": "array", "items": {"type": "string"}}
          }
        }
      }
    }
  }
}
)json";
}

const char* compare_schema() {
  return R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "headroom.compare/1",
  "title": "A prediction against what was measured, phase by phase. Sizes are bytes, as torch.cuda counts them.",
  "type": "object",
  "required": ["schema", "rows", "trends"],
  "properties": {
    "schema": {"const": "headroom.compare/1"},
    "first": {"type": "string", "description": "what rows call predicted: that, or the first run's file"},
    "second": {"type": "string", "description": "what rows call measured: that, or the second run's file"},
    "rows": {
      "type": "array",
      "items": {
        "type": "object",
        "required": ["name", "step", "phase", "predicted_peak_allocated", "measured_peak_allocated",
                     "predicted_peak_reserved", "measured_peak_reserved"],
        "properties": {
          "name": {"type": "string"}, "step": {"type": "integer"}, "phase": {"type": "string"},
          "predicted_peak_allocated": {"type": "integer"}, "measured_peak_allocated": {"type": "integer"},
          "predicted_peak_reserved": {"type": "integer"}, "measured_peak_reserved": {"type": "integer"}
        }
      }
    },
    "trends": {
      "type": "array",
      "items": {
        "type": "object",
        "required": ["phase", "steps", "allocated_grows", "allocated_bytes_a_step", "reserved_grows",
                     "reserved_bytes_a_step", "fragmentation_accumulates"],
        "properties": {
          "phase": {"type": "string"}, "steps": {"type": "integer"}, "allocated_grows": {"type": "boolean"},
          "allocated_bytes_a_step": {"type": "integer"}, "reserved_grows": {"type": "boolean"},
          "reserved_bytes_a_step": {"type": "integer"}, "fragmentation_accumulates": {"type": "boolean"}
        }
      }
    }
  }
}
)json";
}

}  // namespace headroom::writers
