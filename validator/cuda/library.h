#pragma once

#include <string>
#include <vector>

#include "models/base/result.h"

namespace headroom::gpu {

/// A shared library loaded at run time and kept until the process ends (CUDA libraries do not unload
/// cleanly).
class Library {
 public:
  /// Opens the first of `sonames` that is found: by the loader's own search, then in each of
  /// `library_folders()`. The error names the library, the sonames and how to point at it.
  static Result<Library> open(const std::string& name, const std::vector<std::string>& sonames);

  /// Fills `function` with the address of `symbol`; an error names the library that lacks it.
  template <class Function>
  Status find(const char* symbol, Function& function) const {
    HEADROOM_ASSIGN(void* address, address_of(symbol));
    function = reinterpret_cast<Function>(address);
    return {};
  }

  /// Where it was found: a path or a soname.
  const std::string& path() const { return path_; }

 private:
  Library(std::string name, std::string path, void* handle)
      : name_(std::move(name)), path_(std::move(path)), handle_(handle) {}
  Result<void*> address_of(const char* symbol) const;

  std::string name_, path_;
  void* handle_;
};

/// Folders that may hold CUDA libraries beyond the loader's own: HEADROOM_LIBRARY_PATH (colon-separated), the
/// CUDA Toolkit, and the wheels of PyTorch installations: of the active virtual environment, of each
/// `python3` on PATH, and of the system's.
std::vector<std::string> library_folders();

}  // namespace headroom::gpu
