#include "simulator/job/job.h"

#include <algorithm>

namespace headroom {
namespace {

template <typename T>
const T* find_named(const std::vector<T>& items, const std::string& name) {
  const auto it = std::find_if(items.begin(), items.end(), [&](const T& item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

}  // namespace

const Role* Job::role(const std::string& wanted) const {
  return find_named(roles, wanted);
}

const Engine* Job::engine(const std::string& wanted) const {
  return find_named(engines, wanted);
}

const Process* Job::process(const std::string& wanted) const {
  return find_named(processes, wanted);
}

const Pool* Job::pool(const std::string& wanted) const {
  return find_named(pools, wanted);
}

const Process* Job::process_of(const std::string& wanted) const {
  for (const Process& process : processes)
    if (std::find(process.roles.begin(), process.roles.end(), wanted) != process.roles.end()) return &process;
  return nullptr;
}

}  // namespace headroom
