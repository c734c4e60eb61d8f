#include "simulator/engine/generation/continuous_batch.h"

#include <algorithm>
#include <vector>

namespace headroom::engine {
namespace {

/// Requests of one length that wait: not begun, or put back.
struct Group {
  double tokens = 0;  ///< at which they end
  double waiting = 0;
  double done = 0;  ///< tokens that those put back had
};

/// Requests of one length that began together.
struct Cohort {
  std::size_t group = 0;
  double count = 0, done = 0;
};

/// One replica's queue and what runs.
class Batch {
 public:
  Batch(const RequestLoad& load, const TokenSteps& steps) : load_(load), steps_(steps) {
    for (const Requests& one : load.ends) {
      groups_.push_back({one.tokens, one.count, 0});
      longest_ = std::max(longest_, one.tokens);
    }
  }

  Seconds run() {
    spent_ += steps_.prefill(load_.prompts * load_.prompt, load_.prompt);
    long_queue();
    admit();
    while (!running_.empty()) stretch();
    return spent_;
  }

 private:
  double waiting() const {
    double out = 0;
    for (const Group& group : groups_) out += group.waiting;
    return out;
  }
  double running() const {
    double out = 0;
    for (const Cohort& one : running_) out += one.count;
    return out;
  }
  double cached() const {
    double out = 0;
    for (const Cohort& one : running_) out += one.count * (load_.prompt + one.done);
    return out;
  }

  /// Of a queue many times as long as what runs at once, all but the last: as many run at any time, at all
  /// ages.
  void long_queue() {
    double all = 0, tokens = 0, squares = 0;
    for (const Group& group : groups_) {
      all += group.waiting;
      tokens += group.waiting * group.tokens;
      squares += group.waiting * group.tokens * group.tokens;
    }
    const double context = load_.prompt + squares / (2 * tokens);
    double at_once = load_.slots;
    if (load_.cache > 0) at_once = std::max(1.0, std::min(at_once, load_.cache / context));
    const double share = 1 - kSimulated * at_once / all;
    if (share <= 0) return;
    spent_ += steps_.decode(at_once, context) * (share * tokens / at_once);
    for (Group& group : groups_) group.waiting *= 1 - share;
  }

  /// Lengths are not known beforehand: requests of all lengths begin in equal parts.
  void admit() {
    const double queue = waiting(), now = running();
    if (queue <= kFew) return;
    double room = std::max(0.0, load_.slots - now);
    if (load_.cache > 0) {
      double begun = 0;  // tokens that one brings along
      for (const Group& group : groups_) begun += group.waiting * group.done;
      const double ahead = longest_ / kStretches;
      const double free = load_.cache - cached() - now * ahead;
      room = std::min(room, std::max(0.0, free) / (load_.prompt + begun / queue + ahead));
    }
    if (running_.empty()) room = std::max(room, std::min(1.0, queue));
    room = std::min(room, queue);
    // In shares: engines admit one by one, which is the same on average.
    if (!running_.empty() && room < std::min(queue, load_.slots / kAdmissions)) return;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      Group& group = groups_[i];
      const double count = group.waiting * room / queue;
      if (count <= 0) continue;
      if (group.done > 0) spent_ += steps_.prefill(count * (load_.prompt + group.done), load_.prompt);
      running_.push_back({i, count, group.done});
      group.waiting -= count;
      if (group.waiting <= kFew) group.waiting = group.done = 0;
    }
  }

  /// To the next end, or as far as the cache has room.
  void stretch() {
    const double count = running();
    double tokens = longest_;
    for (const Cohort& one : running_) tokens = std::min(tokens, groups_[one.group].tokens - one.done);
    if (load_.cache > 0 && count > 1.001) {
      const double room = (load_.cache - cached()) / count;
      if (room < tokens && room < 1) {
        put_back(count / kAdmissions);
        return;
      }
      tokens = std::min(tokens, room);
    }
    spent_ += steps_.decode(std::max(1.0, count), cached() / count + tokens / 2) * tokens;
    for (Cohort& one : running_) one.done += tokens;
    std::erase_if(running_, [&](const Cohort& one) { return one.done >= groups_[one.group].tokens - 0.5; });
    admit();
  }

  /// The last to come make room for the others; one always runs.
  void put_back(double leave) {
    leave = std::min(std::max(1.0, leave), running() - 1);
    while (leave > kFew) {
      Cohort& last = running_.back();
      Group& group = groups_[last.group];
      const double count = std::min(leave, last.count);
      group.done = (group.done * group.waiting + last.done * count) / (group.waiting + count);
      group.waiting += count;
      last.count -= count;
      leave -= count;
      if (last.count <= kFew) running_.pop_back();
    }
  }

  static constexpr double kFew = 1e-6, kStretches = 32, kAdmissions = 8, kSimulated = 2;
  const RequestLoad& load_;
  const TokenSteps& steps_;
  std::vector<Group> groups_;
  std::vector<Cohort> running_;  ///< the first to come first
  double longest_ = 1;
  Seconds spent_;
};

}  // namespace

Seconds generation_seconds(const RequestLoad& load, const TokenSteps& steps) {
  if (load.ends.empty()) return {};
  return Batch(load, steps).run();
}

}  // namespace headroom::engine
