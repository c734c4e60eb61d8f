#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/base/result.h"
#include "validator/launch/ranks.h"

namespace headroom::launch {

/// How ranks exchange small texts before NCCL connects them, and their results afterwards: rank 0 listens,
/// the others hold one TCP connection to it. All ranks call the same functions in the same order. With one
/// rank nothing is opened.
class Rendezvous {
 public:
  /// Waits for every rank; an error after `seconds`, and at once where rank 0's address is none. Afterwards
  /// each waits for the others as long as their work takes; a connection that ends, or a machine that does
  /// not answer any more (some two minutes), is an error.
  static Result<Rendezvous> meet(const Place& place, int seconds = 120);

  Rendezvous(Rendezvous&& other) noexcept : place_(other.place_), peers_(std::move(other.peers_)) {
    other.peers_.clear();
  }
  Rendezvous& operator=(Rendezvous&&) = delete;
  ~Rendezvous();

  const Place& place() const { return place_; }
  /// Rank 0's text, on every rank.
  Result<std::string> broadcast(const std::string& text);
  /// Every rank's text in order, on rank 0; empty elsewhere.
  Result<std::vector<std::string>> gather(const std::string& text);
  /// As gather, but takes what comes within `seconds`: nothing for ranks that said nothing by then.
  Result<std::vector<std::optional<std::string>>> gather_within(const std::string& text, int seconds);
  /// Rank 0 tells those who still listen; who is gone is no error.
  void tell(const std::string& text);
  /// On ranks other than 0: whether rank 0 told `text` within `seconds`. What it said before is passed over.
  bool heard_within(const std::string& text, int seconds);
  /// Returns once every rank is here.
  Status barrier();

 private:
  explicit Rendezvous(Place place) : place_(std::move(place)) {}

  Result<std::vector<std::optional<std::string>>> collect(const std::string& text,
                                                          std::optional<int> seconds);

  Place place_;
  std::vector<int> peers_;  ///< rank 0: a socket a rank (own: -1); others: the one to rank 0
};

}  // namespace headroom::launch
