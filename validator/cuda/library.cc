#include "validator/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace headroom::gpu {
namespace {

std::vector<std::string> split_path(const char* value) {
  std::vector<std::string> parts;
  std::istringstream stream(value ? value : "");
  for (std::string part; std::getline(stream, part, ':');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

void append_matches(const std::string& pattern, std::vector<std::string>& out) {
  glob_t found{};
  if (::glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
}

// Roots of Python installations: PREFIX in PREFIX/bin/python3 and PREFIX/lib/python3.N/site-packages.
std::vector<std::string> python_prefixes() {
  std::vector<std::string> prefixes;
  if (const char* active = std::getenv("VIRTUAL_ENV")) prefixes.emplace_back(active);
  for (const std::string& folder : split_path(std::getenv("PATH"))) {
    std::error_code ignored;
    if (!std::filesystem::exists(folder + "/python3", ignored)) continue;
    prefixes.push_back(std::filesystem::path(folder).parent_path().string());
  }
  prefixes.insert(prefixes.end(), {"/usr", "/usr/local"});
  append_matches("/opt/*/.venv", prefixes);
  return prefixes;
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders = split_path(std::getenv("HEADROOM_LIBRARY_PATH"));
  append_matches("/usr/local/cuda/lib64", folders);
  for (const std::string& prefix : python_prefixes()) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      append_matches(fmt::format("{}/lib/python3*/{}/nvidia/*/lib", prefix, packages), folders);
    }
  }
  return folders;
}

Result<Library> Library::open(const std::string& name, const std::vector<std::string>& sonames) {
  // RTLD_GLOBAL: cuBLAS finds cuBLASLt among the libraries already loaded when its folder is not searched.
  constexpr int kMode = RTLD_NOW | RTLD_GLOBAL;
  for (const std::string& soname : sonames) {
    if (void* handle = ::dlopen(soname.c_str(), kMode)) return Library(name, soname, handle);
  }
  for (const std::string& folder : library_folders()) {
    for (const std::string& soname : sonames) {
      std::string path = folder + "/" + soname;
      if (void* handle = ::dlopen(path.c_str(), kMode)) return Library(name, path, handle);
    }
  }
  return fail(fmt::format(
      "{} was not found: expected {} on the loader's path, in the CUDA Toolkit or in a PyTorch installation; "
      "set HEADROOM_LIBRARY_PATH to its folder",
      name, fmt::join(sonames, " or ")));
}

Result<void*> Library::address_of(const char* symbol) const {
  if (void* address = ::dlsym(handle_, symbol)) return address;
  return fail(fmt::format("{} ({}) has no {}: expected a newer version", name_, path_, symbol));
}

}  // namespace headroom::gpu
