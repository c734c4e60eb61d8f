#include "planner/cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "models/base/input_files.h"
#include "planner/cli/command.h"

namespace headroom::cli {
namespace {

// What the signal handler removes: the name is set first, then the mark that it is there.
char pending[PATH_MAX];
volatile std::sig_atomic_t have_pending = 0;

/// Ends as a program ends that handles no signal: a shell's loop stops at an interrupt, and `timeout` knows.
void stop(int signal) {
  if (have_pending != 0) unlink(pending);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

tl::unexpected<Error> not_written(const std::string& path, int error) {
  return fail(Error{.message = fmt::format("could not be written: {}", std::strerror(error)),
                    .file = path,
                    .key = {},
                    .kind = Error::Kind::incomplete});
}

/// Writes everything; 0 or the error number.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int write_and_close(int descriptor, std::string_view text) {
  int error = write_all(descriptor, text);
  if (close(descriptor) != 0 && error == 0) error = errno;
  return error;
}

Status write_directly(const std::string& path, std::string_view text) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return not_written(path, errno);
  if (const int error = write_and_close(descriptor, text)) return not_written(path, error);
  return {};
}

/// What takes a file's place keeps its mode and, where that is allowed, its owner.
void take_over(int descriptor, const struct stat* replaced) {
  if (replaced == nullptr) return;
  if (fchown(descriptor, replaced->st_uid, replaced->st_gid) != 0) errno = 0;  // only root may, mostly
  fchmod(descriptor, replaced->st_mode & 07777U);
}

/// Writes a file that has no name yet, so that nothing is left of it whatever ends the program, then names it
/// `temporary`. 0, the error number, or EOPNOTSUPP: this file system has no such files.
int write_unnamed(const std::string& folder, const std::string& temporary, std::string_view text,
                  const struct stat* replaced) {
  const int descriptor = open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (descriptor < 0) return EOPNOTSUPP;
  take_over(descriptor, replaced);
  int error = write_all(descriptor, text);
  const std::string self = fmt::format("/proc/self/fd/{}", descriptor);
  if (error == 0 &&
      linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0)
    error = EOPNOTSUPP;
  if (close(descriptor) != 0 && error == 0) error = errno;
  return error;
}

int write_named(const std::string& temporary, std::string_view text, const struct stat* replaced) {
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  take_over(descriptor, replaced);
  return write_and_close(descriptor, text);
}

Status write_and_rename(const std::string& path, const std::string& target, std::string_view text,
                        const struct stat* replaced) {
  const std::string temporary = fmt::format("{}.{}.tmp", target, getpid());
  if (temporary.size() >= sizeof pending) return not_written(path, ENAMETOOLONG);
  std::memcpy(pending, temporary.c_str(), temporary.size() + 1);
  have_pending = 1;
  const std::string folder = std::filesystem::path(target).parent_path().string();
  int error = write_unnamed(folder.empty() ? "." : folder, temporary, text, replaced);
  if (error == EOPNOTSUPP) error = write_named(temporary, text, replaced);
  if (error == 0 && rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  have_pending = 0;
  if (error != 0) return not_written(path, error);
  return {};
}

}  // namespace

Status write_output(const std::string& path, std::string_view text, Streams& streams) {
  if (path == "-") {
    streams.verbatim = true;
    streams.out.write(text.data(), static_cast<std::streamsize>(text.size()));
    streams.out.flush();
    if (!streams.out) return not_written("standard output", EPIPE);
    return {};
  }
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return not_written(path, EISDIR);
    if (!S_ISREG(status.st_mode)) return write_directly(path, text);
    if (is_input(path))
      return fail(Error{.message = "is one of the files that were read, and would be overwritten; give "
                                   "another name",
                        .file = path,
                        .key = {}});
    // A link's target is replaced, not the link.
    std::error_code ignored;
    const std::filesystem::path target = std::filesystem::canonical(path, ignored);
    return write_and_rename(path, ignored ? path : target.string(), text, &status);
  }
  return write_and_rename(path, path, text, nullptr);
}

Status expect_writable(const std::string& path) {
  if (path == "-") return {};
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return not_written(path, EISDIR);
    if (!S_ISREG(status.st_mode)) return {};
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) return not_written(path, errno);
  return {};
}

int Written::finish(int code, Streams& streams) const {
  return all_ ? code : report_error(all_.error(), streams);
}

Result<std::string> read_standard_input(Streams& streams, std::size_t limit) {
  std::string text;
  char chunk[65536];
  while (streams.in) {
    streams.in.read(chunk, sizeof chunk);
    text.append(chunk, static_cast<std::size_t>(streams.in.gcount()));
    if (text.size() > limit)
      return fail(Error{.message = fmt::format("expected at most {} bytes, found more", limit),
                        .file = "standard input",
                        .key = {}});
  }
  return text;
}

void remove_pending_output_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM}) std::signal(signal, stop);
}

}  // namespace headroom::cli
