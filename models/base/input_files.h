#pragma once

#include <string>

namespace headroom {

/// The files that this command has read, however it came to them: given by name, named in another file, found
/// in a directory. An output must not replace one of them, and only here are all of them known. Known by
/// device and inode, so that links and other spellings count. Thread-safe.

/// `path` has been opened for reading.
void note_input(const std::string& path);

/// Whether `path` is one of the files read (a regular file; pipes and devices are read and written at will).
bool is_input(const std::string& path);

/// A new command begins: nothing has been read yet.
void forget_inputs();

}  // namespace headroom
