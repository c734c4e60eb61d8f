/// docs/regenerate_margins.sh: writes configs/margins.yaml (argument 2) out of docs/ACCURACY.md (argument 1).
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/support/margin_rule.h"

int main(int count, char** arguments) {
  if (count != 3) {
    std::cerr << "usage: margins ACCURACY MARGINS\n";
    return 2;
  }
  std::ostringstream accuracy;
  accuracy << std::ifstream(arguments[1]).rdbuf();
  const auto margins = headroom::test::margins_yaml(accuracy.str());
  if (!margins) {
    std::cerr << margins.error().text() << "\n";
    return 1;
  }
  std::ofstream(arguments[2]) << *margins;
  return 0;
}
