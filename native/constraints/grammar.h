// The rules of one grammar, read from what src/lib/grammar/grammar-buffer.ts writes. Preparing them is linear
// in their size: regular rules become expressions, calls of others stay calls.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "automaton.h"

namespace rocmforge::constraints {

// Not what the writer writes.
struct InvalidGrammar : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Rules {
  const Expression* root = nullptr;
  // Of rules that are called; null for others.
  std::vector<const Expression*> bodies;
  // That reading them added to the automata.
  size_t bytes = 0;
};

// Throws InvalidGrammar. The automata are locked meanwhile.
Rules read_rules(std::span<const uint8_t> buffer, Automata& automata);

}  // namespace rocmforge::constraints
