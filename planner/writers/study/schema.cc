#include "planner/writers/study/study.h"

namespace headroom::writers {

const char* study_schema() {
  return R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "$id": "headroom.study/1",
  "title": "A study: runs, changes of them, and when the cache is emptied. Sizes are bytes, of the training process that reserves most.",
  "type": "object",
  "required": ["schema", "name", "cells"],
  "additionalProperties": false,
  "properties": {
    "schema": {"const": "headroom.study/1"},
    "name": {"type": "string"},
    "cells": {"type": "array", "items": {"$ref": "#/$defs/cell"}}
  },
  "$defs": {
    "peak": {
      "type": "object",
      "required": ["bytes", "step", "phase"],
      "additionalProperties": false,
      "properties": {"bytes": {"type": "integer"}, "step": {"type": "integer", "description": "init is -1"},
                     "phase": {"type": "string"}}
    },
    "part": {
      "type": "object",
      "description": "free memory at a reserved peak, by the phase in which it was got from the driver",
      "required": ["step", "phase", "component", "operation", "bytes"],
      "additionalProperties": false,
      "properties": {
        "step": {"type": "integer"}, "phase": {"type": "string"},
        "component": {"type": "string", "description": "what the tensor was for that the memory was got for"},
        "operation": {"type": "string", "description": "which operation made it"},
        "bytes": {"type": "integer"},
        "kept_by": {"type": "string", "description": "what lives in the same segment, so that emptying the cache would not give it back; absent: it would"}
      }
    },
    "phase": {
      "type": "object",
      "required": ["phase", "reserved", "allocated", "kept", "seconds", "parts", "points"],
      "additionalProperties": false,
      "properties": {
        "phase": {"type": "string"},
        "reserved": {"type": "integer", "description": "the phase's peak"},
        "allocated": {"type": "integer", "description": "at its first moment"},
        "kept": {"type": "integer", "description": "of what is free then, what emptying the cache would keep"},
        "seconds": {"type": "number", "description": "emptying at its end included"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
        "points": {"type": "array", "description": "allocated and reserved along the phase: of equally many allocations and frees the highest",
                   "items": {"type": "array", "items": {"type": "integer"}}}
      }
    },
    "cell": {
      "type": "object",
      "required": ["job", "framework", "strategy", "empty_cache", "status"],
      "additionalProperties": false,
      "properties": {
        "job": {"type": "string"}, "framework": {"type": "string"}, "strategy": {"type": "string"},
        "empty_cache": {"enum": ["own", "never", "generation", "inference", "training", "phases", "micro_batches"]},
        "status": {"enum": ["done", "out_of_memory", "failed"]},
        "message": {"type": "string", "description": "why it stopped or failed"},
        "gpu": {"type": "string"}, "gpus": {"type": "integer"},
        "peak_reserved": {"$ref": "#/$defs/peak"},
        "peak_allocated": {"$ref": "#/$defs/peak"},
        "peak_device": {"$ref": "#/$defs/peak"},
        "fragmentation": {"type": "integer", "description": "reserved minus allocated at the reserved peak's first moment"},
        "without_fragmentation": {"type": "integer", "description": "the reserved peak minus that"},
        "kept": {"type": "integer", "description": "of the fragmentation, what emptying the cache just before could not give back: PyTorch's inactive split"},
        "retries": {"type": "integer", "description": "allocations that found the card full and gave all cached memory back first"},
        "seconds": {"type": "number", "description": "of the last simulated step"},
        "segments_got": {"type": "integer", "description": "calls of the driver for memory in that step: cudaMalloc; mappings of expandable segments"},
        "segments_returned": {"type": "integer", "description": "calls that give it back: cudaFree; unmappings"},
        "seconds_lost": {"type": "number", "description": "against the same without emptying"},
        "saved": {"type": "number", "description": "part of the reserved peak without emptying"},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
        "phases": {"type": "array", "description": "of the step that holds the peak", "items": {"$ref": "#/$defs/phase"}}
      }
    }
  }
}
)json";
}

}  // namespace headroom::writers
