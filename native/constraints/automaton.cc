#include "automaton.h"

#include <algorithm>

namespace rocmforge::constraints {
namespace {

using Kind = Expression::Kind;

// Of the stack: expressions lie no deeper in one another than grammars may.
constexpr int kMostDepth = 2000;

void sort_once(std::vector<const Expression*>& expressions) {
  std::sort(expressions.begin(), expressions.end(), [](auto* a, auto* b) { return a->id < b->id; });
  expressions.erase(std::unique(expressions.begin(), expressions.end()), expressions.end());
}

}  // namespace

size_t Automata::Hash::operator()(const AutomatonState* of) const {
  size_t hash = of->expressions.size();
  for (const Expression* each : of->expressions) hash = (hash ^ each->id) * 0x9e3779b97f4a7c15 + (hash >> 31);
  return hash;
}

AutomatonState* Automata::intern(std::vector<const Expression*> expressions, Budget& budget) {
  sort_once(expressions);
  budget.spend(static_cast<int64_t>(expressions.size()));
  AutomatonState sought;
  sought.expressions.swap(expressions);
  const auto known = known_.find(&sought);
  if (known != known_.end()) return *known;
  const size_t bytes = sizeof(AutomatonState) + 48 + sought.expressions.size() * sizeof(Expression*);
  budget.allocate_automata(bytes);
  table_.count_bytes(bytes);
  AutomatonState* made = &states_.emplace_back();
  made->expressions.swap(sought.expressions);
  for (const Expression* each : made->expressions) {
    made->accepts |= each->nullable;
    made->wide |= each->wide;
  }
  known_.insert(made);
  return made;
}

AutomatonState* Automata::state_of(const Expression* expression, Budget& budget) {
  const std::lock_guard lock(mutex_);
  return intern({expression}, budget);
}

AutomatonState* Automata::united(const std::vector<AutomatonState*>& states, Budget& budget) {
  if (states.size() == 1) return states[0];
  std::vector<const Expression*> all;
  for (const AutomatonState* each : states) all.insert(all.end(), each->expressions.begin(), each->expressions.end());
  const std::lock_guard lock(mutex_);
  return intern(std::move(all), budget);
}

AutomatonState* Automata::clamped(AutomatonState* state, size_t length_class, Budget& budget) {
  if (AutomatonState* known = state->clamped[length_class].load(std::memory_order_acquire)) return known;
  const std::lock_guard lock(mutex_);
  std::vector<const Expression*> all;
  for (const Expression* each : state->expressions) all.push_back(table_.clamped(each, kLengths[length_class]));
  AutomatonState* made = intern(std::move(all), budget);
  state->clamped[length_class].store(made, std::memory_order_release);
  return made;
}

const Expression* Automata::repeat(const Expression* what, uint32_t min, uint32_t max) {
  const std::lock_guard lock(mutex_);
  return table_.repeat(what, min, max);
}

std::pair<const Expression*, const Expression*> Automata::split(const Expression* sequence) {
  const std::lock_guard lock(mutex_);
  return table_.split(sequence);
}

size_t Automata::allocated_bytes() {
  const std::lock_guard lock(mutex_);
  return table_.allocated_bytes();
}

// The first bytes of an expression's texts, and what must match behind each, with `rest` behind that.
void Automata::follow(const Expression* of, const Expression* rest, std::vector<Follower>& out, Budget& budget,
                      int depth) {
  if (depth > kMostDepth) throw BudgetExceeded("has expressions that lie too deep in one another");
  for (;;) {
    budget.spend(1);
    switch (of->kind) {
      case Kind::kNothing:
      case Kind::kEmpty:
      case Kind::kCall:
        return;
      case Kind::kBytes:
        out.emplace_back(of->bytes, rest);
        return;
      case Kind::kLiteral: {
        const auto byte = static_cast<uint8_t>(of->text[0]);
        if (single_[byte] == nullptr) single_[byte] = &single_sets_.emplace_back(ByteSet().set(byte));
        // The text behind it is a part of this one's: it is not copied.
        out.emplace_back(single_[byte], table_.sequence(table_.behind_first(of), rest));
        return;
      }
      case Kind::kSequence:
        follow(of->first, table_.sequence(of->second, rest), out, budget, depth + 1);
        if (!of->first->nullable) return;
        of = of->second;
        break;
      case Kind::kChoice:
        for (const Expression* option : of->options) follow(option, rest, out, budget, depth + 1);
        return;
      case Kind::kRepeat: {
        const uint32_t min = of->min == 0 ? 0 : of->min - 1;
        const uint32_t max = of->max == kUnbounded ? kUnbounded : of->max - 1;
        rest = table_.sequence(table_.repeat(of->first, min, max), rest);
        of = of->first;
        break;
      }
      case Kind::kReference: {
        const auto entry = std::make_pair(of, rest);
        if (std::find(entered_.begin(), entered_.end(), entry) != entered_.end()) return;
        entered_.push_back(entry);
        of = table_.body(of);
        break;
      }
    }
  }
}

const Edges& Automata::build_edges(AutomatonState* state, Budget& budget) {
  const std::lock_guard lock(mutex_);
  if (const Edges* known = state->edges.load(std::memory_order_acquire)) return *known;
  const size_t before = table_.allocated_bytes(), lookups = table_.lookups();
  std::vector<Follower> followers;
  for (const Expression* each : state->expressions) {
    entered_.clear();
    follow(each, table_.empty(), followers, budget, 0);
  }
  budget.allocate_automata(table_.allocated_bytes() - before);
  budget.spend(static_cast<int64_t>(table_.lookups() - lookups));
  const auto each_byte = [](const ByteSet& set, auto&& visit) {
    for (size_t byte = set._Find_first(); byte < 256; byte = set._Find_next(byte)) visit(byte);
  };
  // Bytes between two borders have the same followers.
  std::array<bool, 257> is_border{};
  is_border[0] = true;
  for (const Follower& follower : followers) {
    const ByteSet& set = *follower.first;
    each_byte(set, [&](size_t byte) {
      if (byte > 0 && !set[byte - 1]) is_border[byte] = true;
      if (byte == 255 || !set[byte + 1]) is_border[byte + 1] = true;
    });
  }
  std::array<uint8_t, 256> part{};
  for (size_t byte = 1; byte < 256; byte++) part[byte] = static_cast<uint8_t>(part[byte - 1] + is_border[byte]);
  std::vector<std::vector<const Expression*>> behind(part[255] + size_t{1});
  for (const Follower& follower : followers) {
    each_byte(*follower.first, [&](size_t byte) {
      if (is_border[byte]) behind[part[byte]].push_back(follower.second);
    });
  }
  Edges made;
  for (size_t byte = 0, end = 1; byte < 256; byte = end++) {
    while (end < 256 && !is_border[end]) end++;
    auto& set = behind[part[byte]];
    if (set.empty()) continue;
    AutomatonState* to = intern(std::move(set), budget);
    const bool goes_on = !made.ranges.empty() && made.ranges.back().to == to && made.ranges.back().last + 1u == byte;
    if (goes_on)
      made.ranges.back().last = static_cast<uint8_t>(end - 1);
    else
      made.ranges.push_back({static_cast<uint8_t>(byte), static_cast<uint8_t>(end - 1), to});
  }
  made.ranges.shrink_to_fit();
  if (made.ranges.size() > Edges::kFew) {
    made.index = std::make_unique<std::array<uint16_t, 256>>();
    for (size_t i = 0; i < made.ranges.size(); i++) {
      for (size_t byte = made.ranges[i].first; byte <= made.ranges[i].last; byte++) {
        (*made.index)[byte] = static_cast<uint16_t>(i + 1);
      }
    }
  }
  const size_t bytes = sizeof(Edges) + made.ranges.size() * sizeof(Edges::Range) + (made.index ? 512 : 0);
  table_.count_bytes(bytes);
  budget.allocate_automata(bytes);
  const Edges* kept = &edges_.emplace_back(std::move(made));
  state->edges.store(kept, std::memory_order_release);
  return *kept;
}

}  // namespace rocmforge::constraints
