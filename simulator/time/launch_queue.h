#pragma once

#include <array>

#include "simulator/memory/operation.h"
#include "simulator/time/seconds.h"

namespace headroom {

/// One process's two clocks. Its host thread works and launches kernels; a stream runs them in order, each no
/// earlier than it was launched, and the host goes on at once. The device runs behind until something waits.
/// How far the later clock gets is the phase's time; each advance counts to what caused it.
class LaunchQueue {
 public:
  void host(double seconds, Spent what = Spent::host) {
    host_ += seconds;
    work_.host += seconds;
    advance(host_, what);
  }
  void launch(Stream stream, double seconds, Spent what) {
    double& end = streams_[stream % kStreams];
    if (end < host_) end = host_;
    end += seconds;
    busy_[stream % kStreams] += seconds;
    work_.ran[what] += seconds;
    advance(end, what);
  }
  /// The host waits for what was launched.
  void wait(Stream stream) { wait_until(reached(stream)); }
  double host_reached() const { return host_; }  ///< how far the host is
  /// When the work given to `stream` so far is done; the host waits for such a moment.
  double reached(Stream stream) const { return streams_[stream % kStreams]; }
  void wait_until(double moment) { host_ = host_ < moment ? moment : host_; }
  void wait_all();
  /// What was launched on `stream` goes on when that of `other` is done.
  void follow(Stream stream, Stream other);

  /// What a stretch of work added. Doing it again adds as much to each clock.
  struct Stretch {
    double host = 0, busy = 0;
    Seconds spent, ran;
  };
  Stretch mark() const { return {work_.host, busy_[0], spent_, work_.ran}; }
  Stretch since(const Stretch& mark) const;
  void repeat(const Stretch& stretch);

  /// What host and device did, whichever the phase waited for; the device: its busiest stream.
  struct Work {
    double host = 0, device = 0;
    Seconds ran;  ///< of the device by kind, all streams
  };
  Work work() const;

  /// Seconds since the last call, all work done.
  Seconds take();

 private:
  static constexpr std::size_t kStreams = 16;
  void advance(double to, Spent what) {
    if (to <= latest_) return;
    spent_[what] += to - latest_;
    latest_ = to;
  }

  double host_ = 0, latest_ = 0;
  Work work_;
  std::array<double, kStreams> streams_{}, busy_{};
  Seconds spent_;
};

}  // namespace headroom
