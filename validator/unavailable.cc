#include "validator/probe.h"
#include "validator/validate.h"

// Answers for validate.h and probe.h in a build without the CUDA Toolkit.
namespace headroom::gpu {
namespace {

tl::unexpected<Error> without_cuda() {
  return fail(
      "this build of headroom has no GPU part: expected one configured where the CUDA Toolkit (nvcc) is "
      "installed");
}

}  // namespace

Status available() {
  return without_cuda();
}

Result<int> visible_cards() {
  return without_cuda();
}

Result<Measurements> calibrate(const CalibrateOptions&, const launch::Place&) {
  return without_cuda();
}

Result<Probe> probe(const Job&, const ProbeOptions&) {
  return without_cuda();
}

bool is_neighbour() {
  return false;
}

Result<int> serve_as_neighbour() {
  return without_cuda();
}

}  // namespace headroom::gpu
