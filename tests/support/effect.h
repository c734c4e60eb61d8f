#pragma once

#include <iosfwd>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/document/document.h"
#include "planner/frameworks/registry.h"
#include "simulator/report/report.h"

namespace headroom::test {

/// What a setting changed.
enum class Change {
  none,
  figures,  ///< a memory, host memory or time of the report
  refused,  ///< the run is refused
  shown,    ///< what the report names: versions, processes, assumptions
  told,     ///< a warning that names the key says that it changes nothing, or what is missing
};

void PrintTo(Change change, std::ostream* out);

/// A run that settings are tried on. Its own reports are made once.
class Base {
 public:
  Base(std::string framework, std::vector<std::string> files, std::string text,
       std::vector<std::string> overrides);

  const Result<ReadJob>& read() const { return read_; }
  /// What `key` does at `value`, after `beside` (`key=value`): by the closed form where that shows it, else by
  /// the simulator.
  Change change(const std::string& key, const std::string& value, std::vector<std::string> beside = {});

 private:
  Result<ReadJob> read_with(std::vector<std::string> more) const;
  bool figures_differ(const Job& before, const Job& after, bool own);

  std::string framework_, text_;
  std::vector<std::string> files_, overrides_;
  Result<ReadJob> read_;
  std::map<bool, std::string> figures_;  ///< by whether they are simulated
};

/// A framework's bases and, key by key, on which of them which value changes something: a file of
/// tests/data/keys.
class KeyCases {
 public:
  struct Case {
    std::string key, base, value;
    std::vector<std::string> beside;
  };

  explicit KeyCases(const std::string& framework);

  Base& base(const std::string& name);
  std::vector<std::string> bases() const;
  const std::vector<Case>& cases() const { return cases_; }

 private:
  std::string framework_;
  Document document_;
  std::map<std::string, Base> bases_;
  std::vector<Case> cases_;
};

/// The keys that the bases' runs say they use.
std::set<std::string> keys_used(const std::string& framework);

/// Tries every case; says of each that changes nothing so. Then holds the cases against `keys`.
void expect_every_key_matters(const std::string& framework, const std::set<std::string>& keys);

}  // namespace headroom::test
