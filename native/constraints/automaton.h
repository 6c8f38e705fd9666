// Deterministic automata of regular expressions, built as far as texts go: a state is the set of expressions of which
// one must match what follows (partial derivatives: Antimirov, 1996). Shared by all grammars and threads of a
// vocabulary.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "expression.h"

namespace rocmforge::constraints {

// A grammar takes more steps for one mask, or more memory, than it may.
struct BudgetExceeded : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Steps and bytes that one job may still take.
struct Budget {
  int64_t steps;
  int64_t bytes;
  // Of `bytes`, those of automata, which are taken until the last grammar of the automata is gone.
  int64_t automata_bytes = 0;

  void spend(int64_t count) {
    if ((steps -= count) < 0) throw BudgetExceeded("takes too many steps for one token");
  }
  void allocate(size_t count) {
    if ((bytes -= static_cast<int64_t>(count)) < 0) throw BudgetExceeded("takes too much memory");
  }
  void allocate_automata(size_t count) {
    automata_bytes += static_cast<int64_t>(count);
    allocate(count);
  }
};

struct AutomatonState;

// An expression that is not made yet: `first`, or a literal without its first byte, and `second` behind it.
struct Behind {
  const Expression* first;
  const Expression* second;
  bool is_cut;
  bool operator==(const Behind&) const = default;
};

struct Edges {
  struct Range {
    uint8_t first = 0, last = 0;
    // The expressions of the state, in `behind`.
    uint32_t behind = 0, behind_end = 0;
    // Made when a text comes to it, and null until then.
    std::atomic<AutomatonState*> to{nullptr};
  };
  static constexpr size_t kFew = 4;
  std::unique_ptr<Range[]> ranges;  // sorted, and apart
  size_t count = 0;
  std::vector<Behind> behind;
  std::unique_ptr<std::array<uint8_t, 256>> index;  // 1 + the range of each byte, 0: none; for more than a few ranges

  std::span<Range> all() const { return {ranges.get(), count}; }
  std::span<const Behind> behind_of(const Range& range) const {
    return {behind.data() + range.behind, behind.data() + range.behind_end};
  }
  Range* find(uint8_t byte) const {
    if (index != nullptr) return (*index)[byte] == 0 ? nullptr : &ranges[(*index)[byte] - 1];
    for (Range& range : all()) {
      if (byte <= range.last) return byte >= range.first ? &range : nullptr;
    }
    return nullptr;
  }
};

struct AutomatonState {
  std::vector<const Expression*> expressions;  // by id
  bool accepts = false;
  // Many tokens follow: worth keeping.
  bool wide = false;
  std::atomic<const Edges*> edges{nullptr};
  // The state with the same tokens of a length class; see ExpressionTable::clamped.
  std::array<std::atomic<AutomatonState*>, kLengthClasses> clamped{};
};

// Locked by itself: any thread may call it. States live as long as it does.
class Automata {
 public:
  explicit Automata(uint64_t epoch) : epoch_(epoch) {}
  Automata(const Automata&) = delete;
  Automata& operator=(const Automata&) = delete;

  AutomatonState* state_of(const Expression* expression, Budget& budget);
  AutomatonState* united(const std::vector<AutomatonState*>& states, Budget& budget);
  const Edges& edges(AutomatonState* state, Budget& budget) {
    const Edges* known = state->edges.load(std::memory_order_acquire);
    return known != nullptr ? *known : build_edges(state, budget);
  }
  // Behind a byte; null where no text continues with it.
  AutomatonState* step(AutomatonState* from, uint8_t byte, Budget& budget) {
    const Edges& found = edges(from, budget);
    Edges::Range* range = found.find(byte);
    return range == nullptr ? nullptr : target(found, *range, budget);
  }
  AutomatonState* target(const Edges& edges, Edges::Range& range, Budget& budget) {
    AutomatonState* known = range.to.load(std::memory_order_acquire);
    return known != nullptr ? known : build_target(edges, range, budget);
  }
  AutomatonState* clamped(AutomatonState* state, size_t length_class, Budget& budget);
  const Expression* repeat(const Expression* what, uint32_t min, uint32_t max);
  std::pair<const Expression*, const Expression*> split(const Expression* sequence);

  uint64_t epoch() const { return epoch_; }
  std::mutex& mutex() { return mutex_; }
  ExpressionTable& expressions() { return table_; }
  size_t allocated_bytes();

 private:
  struct Hash {
    size_t operator()(const AutomatonState* of) const;
  };
  struct Equal {
    bool operator()(const AutomatonState* a, const AutomatonState* b) const { return a->expressions == b->expressions; }
  };
  using Follower = std::pair<const ByteSet*, Behind>;

  // Sorts a set of expressions; those that begin alike become one, so that alternatives with a common part take its
  // states once.
  void factor(std::vector<const Expression*>& expressions, Budget& budget);
  AutomatonState* intern(std::vector<const Expression*> expressions, Budget& budget);
  const Edges& build_edges(AutomatonState* state, Budget& budget);
  AutomatonState* build_target(const Edges& edges, Edges::Range& range, Budget& budget);
  void follow(const Expression* of, const Expression* rest, std::vector<Follower>& out, Budget& budget, int depth);

  const uint64_t epoch_;
  std::mutex mutex_;
  ExpressionTable table_;
  std::deque<AutomatonState> states_;
  std::unordered_set<AutomatonState*, Hash, Equal> known_;
  std::deque<Edges> edges_;
  std::vector<std::pair<const Expression*, const Expression*>> entered_;  // references, and what is behind them
  std::array<const ByteSet*, 256> single_{};
  std::deque<ByteSet> single_sets_;
};

}  // namespace rocmforge::constraints
