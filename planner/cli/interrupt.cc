#include "planner/cli/interrupt.h"

#include <csignal>

#include "planner/cli/output.h"

namespace headroom::cli {
namespace {

volatile std::sig_atomic_t noted = 0;

void note(int signal) {
  noted = signal;
  remove_pending_output_on_signals();  // the next one ends
}

}  // namespace

Interrupt::Interrupt() {
  noted = 0;
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, note);
}

Interrupt::~Interrupt() {
  remove_pending_output_on_signals();
}

bool Interrupt::came() {
  return noted != 0;
}

void Interrupt::obey() {
  if (noted != 0) raise(noted);
}

}  // namespace headroom::cli
