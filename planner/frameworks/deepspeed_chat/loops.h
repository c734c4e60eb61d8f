#pragma once

#include "planner/frameworks/deepspeed_chat/loop.h"
#include "planner/frameworks/deepspeed_chat/supervised_loop.h"

namespace headroom::deepspeed_chat {

inline constexpr const LoopKind* kLoops[] = {&kChatLoop, &kSupervisedLoop};

}  // namespace headroom::deepspeed_chat
