// Matches texts against a grammar, byte by byte. Where a text has come to is a set of threads, each of which is within
// an automaton and goes on with a continuation behind it. Rules that are called at the same place share what follows
// them, so that all ways to derive a text take polynomial time together (Earley, 1970; Tomita's graph-structured
// stacks, 1985).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "grammar.h"
#include "token_trie.h"

namespace rocmforge::constraints {

struct State;

// What follows an automaton.
struct Continuation {
  enum class Kind : uint8_t { kEnd, kCell, kReturn };

  Kind kind;
  const Expression* expression = nullptr;  // kCell: what must match next
  const Continuation* next = nullptr;      // kCell: and then
  State* caller = nullptr;                 // kReturn: where the rule was called
  uint32_t rule = 0;
  // Lives on when memory is freed.
  mutable bool is_marked = false;
};

struct Thread {
  AutomatonState* automaton;
  const Continuation* continuation;
  bool operator==(const Thread&) const = default;
};

// Where texts have come to.
struct State {
  // Behind the last byte, by continuation; each has another.
  std::vector<Thread> arrived;
  // With all that can be entered from there without a byte; once `is_complete`.
  bool is_complete = false;
  bool accepts = false;
  std::vector<Thread> threads;
  ByteSet first_bytes;
  std::vector<std::pair<uint32_t, std::vector<const Continuation*>>> calls;  // a rule, and what follows its calls
  std::vector<std::pair<uint8_t, State*>> next;                              // by byte
  std::weak_ptr<const TokenMask> mask;
  bool is_marked = false;
};

class Matcher;

// A grammar for a vocabulary, with the states that its texts have come to. One thread at a time may use it and its
// matchers.
class Grammar {
 public:
  Grammar(std::shared_ptr<Vocabulary> vocabulary, std::vector<uint8_t> buffer);
  ~Grammar();
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  Vocabulary& vocabulary() { return *vocabulary_; }
  // Held by who uses it.
  std::mutex& mutex() { return mutex_; }
  // As written, of its states, and of what its rules and texts have added to automata; readable at any time.
  size_t allocated_bytes() const {
    return buffer_.size() + allocated_.load(std::memory_order_relaxed) +
           automata_bytes_.load(std::memory_order_relaxed);
  }
  // Automata that are prepared later have a higher one; kNoEpoch: it has none now.
  uint64_t epoch() const { return epoch_.load(std::memory_order_relaxed); }
  static constexpr uint64_t kNoEpoch = UINT64_MAX;
  // Before a job. Throws BudgetExceeded where texts have added too much to automata.
  void begin();
  // A job added so much to automata.
  void count_automata(int64_t bytes) { automata_bytes_ += static_cast<size_t>(bytes); }

 private:
  friend class Matcher;
  class Completion;

  struct ContinuationHash {
    size_t operator()(const Continuation* of) const;
  };
  struct ContinuationEqual {
    bool operator()(const Continuation* a, const Continuation* b) const;
  };
  struct StateHash {
    size_t operator()(const State* of) const;
  };
  struct StateEqual {
    bool operator()(const State* a, const State* b) const { return a->arrived == b->arrived; }
  };

  const Continuation* continuation(Continuation&& made, Budget& budget);
  State* state(std::vector<Thread> arrived, Budget& budget);
  State* start(Budget& budget);
  void complete(State* state, Budget& budget);
  State* step(State* from, uint8_t byte, Budget& budget);
  std::shared_ptr<const TokenMask> mask(State* state, Budget& budget);
  void walk(size_t length_class, uint32_t node, State* state, std::vector<uint32_t>& words, Budget& budget);
  void prepare();
  // Frees what no matcher can come back to.
  void free_unused();
  // Behind its last matcher: of a large one nothing is kept but the buffer, and it is prepared again for the next one.
  void rest();
  void mark(State* state, std::vector<State*>& open);
  void mark(const Continuation* continuation, std::vector<State*>& open);
  void allocate(size_t bytes, Budget& budget);

  std::shared_ptr<Vocabulary> vocabulary_;
  std::vector<uint8_t> buffer_;
  std::shared_ptr<Automata> automata_;
  Rules rules_;
  std::mutex mutex_;
  std::unordered_set<const Continuation*, ContinuationHash, ContinuationEqual> continuations_;
  std::unordered_set<State*, StateHash, StateEqual> states_;
  std::unordered_set<Matcher*> matchers_;
  Continuation end_{Continuation::Kind::kEnd};
  std::atomic<size_t> allocated_{0};
  std::atomic<size_t> automata_bytes_{0};
  std::atomic<uint64_t> epoch_{kNoEpoch};
  size_t free_at_;
};

// One text, as far as it has come. All but the constructor and destructor need the grammar's mutex.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Grammar> grammar);
  Matcher(const Matcher& other);
  ~Matcher();
  Matcher& operator=(const Matcher&) = delete;

  Grammar& grammar() { return *grammar_; }
  // Before a job, in which states are kept.
  void begin() { grammar_->begin(); }
  // Whether the token may come next; else the text stays where it is. Throws BudgetExceeded.
  bool accept(uint32_t token, Budget& budget);
  bool accept(std::span<const uint8_t> bytes, Budget& budget);
  // Goes back by so many accepted tokens, at most kRemembered.
  bool roll_back(size_t tokens);
  // Whether the text may end here.
  bool accepts(Budget& budget);
  std::shared_ptr<const TokenMask> mask(Budget& budget);

  static constexpr size_t kRemembered = 32;

 private:
  friend class Grammar;
  State* now(Budget& budget);

  std::shared_ptr<Grammar> grammar_;
  std::deque<State*> states_;  // the last is where it is; none before the first use
};

}  // namespace rocmforge::constraints
