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

void Automata::factor(std::vector<const Expression*>& expressions, Budget& budget) {
  std::vector<const Expression*> made, sequences;
  const auto add = [&](const Expression* each) { (each->kind == Kind::kSequence ? sequences : made).push_back(each); };
  for (const Expression* each : expressions) {
    if (each->kind != Kind::kChoice)
      add(each);
    else
      for (const Expression* option : each->options) add(option);
  }
  sort_once(sequences);
  std::stable_sort(sequences.begin(), sequences.end(), [](auto* a, auto* b) { return a->first->id < b->first->id; });
  budget.spend(static_cast<int64_t>(made.size() + sequences.size()));
  const size_t bytes = table_.allocated_bytes(), lookups = table_.lookups();
  for (size_t i = 0, end; i < sequences.size(); i = end) {
    std::vector<const Expression*> behind;
    for (end = i; end < sequences.size() && sequences[end]->first == sequences[i]->first; end++) {
      behind.push_back(sequences[end]->second);
    }
    if (behind.size() == 1)
      made.push_back(sequences[i]);
    else
      made.push_back(table_.sequence(sequences[i]->first, table_.choice(std::move(behind))));
  }
  sort_once(made);
  expressions.swap(made);
  budget.spend(static_cast<int64_t>(table_.lookups() - lookups));
  budget.allocate_automata(table_.allocated_bytes() - bytes);
}

AutomatonState* Automata::intern(std::vector<const Expression*> expressions, Budget& budget) {
  factor(expressions, budget);
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
        out.emplace_back(of->bytes, Behind{rest, table_.empty(), false});
        return;
      case Kind::kLiteral: {
        const auto byte = static_cast<uint8_t>(of->text[0]);
        if (single_[byte] == nullptr) single_[byte] = &single_sets_.emplace_back(ByteSet().set(byte));
        out.emplace_back(single_[byte], Behind{of, rest, true});
        return;
      }
      case Kind::kSequence:
        if (of->first->kind == Kind::kBytes) {
          out.emplace_back(of->first->bytes, Behind{of->second, rest, false});
          return;
        }
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
  std::vector<std::vector<Behind>> behind(part[255] + size_t{1});
  for (const Follower& follower : followers) {
    each_byte(*follower.first, [&](size_t byte) {
      if (is_border[byte]) behind[part[byte]].push_back(follower.second);
    });
  }
  struct Bytes {
    size_t first, last;
    std::vector<Behind>* behind;
  };
  std::vector<Bytes> ranges;
  for (size_t byte = 0, end = 1; byte < 256; byte = end++) {
    while (end < 256 && !is_border[end]) end++;
    auto& set = behind[part[byte]];
    if (set.empty()) continue;
    if (!ranges.empty() && ranges.back().last + 1 == byte && *ranges.back().behind == set)
      ranges.back().last = end - 1;
    else
      ranges.push_back({byte, end - 1, &set});
  }
  Edges made;
  made.count = ranges.size();
  made.ranges = std::make_unique<Edges::Range[]>(made.count);
  // No text has all 256 bytes.
  if (made.count > Edges::kFew && made.count < 256) made.index = std::make_unique<std::array<uint8_t, 256>>();
  size_t bytes = sizeof(Edges) + (made.index ? sizeof(*made.index) : 0);
  for (size_t i = 0; i < made.count; i++) {
    Edges::Range& range = made.ranges[i];
    range.first = static_cast<uint8_t>(ranges[i].first);
    range.last = static_cast<uint8_t>(ranges[i].last);
    range.behind = static_cast<uint32_t>(made.behind.size());
    made.behind.insert(made.behind.end(), ranges[i].behind->begin(), ranges[i].behind->end());
    range.behind_end = static_cast<uint32_t>(made.behind.size());
    for (size_t byte = range.first; made.index != nullptr && byte <= range.last; byte++) {
      (*made.index)[byte] = static_cast<uint8_t>(i + 1);
    }
  }
  made.behind.shrink_to_fit();
  bytes += made.count * sizeof(Edges::Range) + made.behind.size() * sizeof(Behind);
  table_.count_bytes(bytes);
  budget.allocate_automata(bytes);
  const Edges* kept = &edges_.emplace_back(std::move(made));
  state->edges.store(kept, std::memory_order_release);
  return *kept;
}

AutomatonState* Automata::build_target(const Edges& edges, Edges::Range& range, Budget& budget) {
  const std::lock_guard lock(mutex_);
  if (AutomatonState* known = range.to.load(std::memory_order_acquire)) return known;
  const size_t before = table_.allocated_bytes(), lookups = table_.lookups();
  std::vector<const Expression*> expressions;
  for (const Behind& each : edges.behind_of(range)) {
    // The text behind a literal's first byte is a part of the literal's: it is not copied.
    const Expression* first = each.is_cut ? table_.behind_first(each.first) : each.first;
    expressions.push_back(table_.sequence(first, each.second));
  }
  budget.allocate_automata(table_.allocated_bytes() - before);
  budget.spend(static_cast<int64_t>(table_.lookups() - lookups));
  AutomatonState* made = intern(std::move(expressions), budget);
  range.to.store(made, std::memory_order_release);
  return made;
}

}  // namespace rocmforge::constraints
