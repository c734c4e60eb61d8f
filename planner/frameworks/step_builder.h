#pragma once

#include "simulator/job/step_builder.h"
