// One file because all of it works on the states of one matcher and their account of bytes.
#include "matcher.h"

#include <algorithm>

namespace rocmforge::constraints {
namespace {

using Kind = Expression::Kind;

// Bytes of a grammar's states from which on unused ones are freed, and that all may take; as many may its texts add to
// automata.
constexpr size_t kFreeAt = 512 << 10;
constexpr size_t kMostBytes = 32 << 20;
// Bytes that a grammar without matchers may keep.
constexpr size_t kRestBytes = 1'000'000;

// In steps of 15 ns: a place in a hash table; calls, and words of masks, that are looked at one after the other.
constexpr int64_t kReachSteps = 4;
constexpr size_t kCallsInStep = 16;
constexpr size_t kWordsInStep = 32;

size_t mixed(size_t hash, const void* value) {
  return (hash ^ reinterpret_cast<size_t>(value) >> 4) * 0x9e3779b97f4a7c15 + (hash >> 29);
}

bool by_continuation(const Thread& a, const Thread& b) {
  return std::less<const void*>()(a.continuation, b.continuation);
}

size_t bytes_of(const State& state) {
  size_t bytes = sizeof(State) + 64 + (state.arrived.size() + state.threads.size()) * sizeof(Thread);
  for (const auto& call : state.calls) bytes += 32 + call.second.size() * sizeof(void*);
  return bytes + state.next.size() * sizeof(state.next[0]);
}

}  // namespace

size_t Grammar::ContinuationHash::operator()(const Continuation* of) const {
  return mixed(mixed(mixed(static_cast<size_t>(of->kind) + of->rule * size_t{4}, of->expression), of->next),
               of->caller);
}

bool Grammar::ContinuationEqual::operator()(const Continuation* a, const Continuation* b) const {
  return a->kind == b->kind && a->expression == b->expression && a->next == b->next && a->caller == b->caller &&
         a->rule == b->rule;
}

size_t Grammar::StateHash::operator()(const State* of) const {
  size_t hash = of->arrived.size();
  for (const Thread& thread : of->arrived) hash = mixed(mixed(hash, thread.automaton), thread.continuation);
  return hash;
}

Grammar::Grammar(std::shared_ptr<Vocabulary> vocabulary, std::vector<uint8_t> buffer)
    : vocabulary_(std::move(vocabulary)), buffer_(std::move(buffer)), free_at_(kFreeAt) {
  prepare();
}

void Grammar::prepare() {
  automata_ = vocabulary_->automata();
  epoch_ = automata_->epoch();
  rules_ = read_rules(buffer_, *automata_);
  automata_bytes_ = rules_.bytes;
}

Grammar::~Grammar() {
  for (const Continuation* each : continuations_) delete each;
  for (State* each : states_) delete each;
}

void Grammar::begin() {
  if (allocated_ >= free_at_) free_unused();
  if (automata_bytes_ - rules_.bytes > kMostBytes) throw BudgetExceeded("takes too much memory");
}

void Grammar::allocate(size_t bytes, Budget& budget) {
  budget.allocate(bytes);
  if (allocated_.fetch_add(bytes, std::memory_order_relaxed) + bytes > kMostBytes) {
    throw BudgetExceeded("takes too much memory");
  }
}

const Continuation* Grammar::continuation(Continuation&& made, Budget& budget) {
  const auto known = continuations_.find(&made);
  if (known != continuations_.end()) return *known;
  allocate(sizeof(Continuation) + 48, budget);
  auto kept = std::make_unique<Continuation>(std::move(made));
  continuations_.insert(kept.get());
  return kept.release();
}

State* Grammar::state(std::vector<Thread> arrived, Budget& budget) {
  State sought;
  sought.arrived = std::move(arrived);
  const auto known = states_.find(&sought);
  if (known != states_.end()) return *known;
  auto kept = std::make_unique<State>();
  kept->arrived = std::move(sought.arrived);
  allocate(bytes_of(*kept), budget);
  states_.insert(kept.get());
  return kept.release();
}

State* Grammar::start(Budget& budget) {
  if (automata_ == nullptr) prepare();
  const Expression* empty = automata_->expressions().empty();
  const Continuation* root = continuation({Continuation::Kind::kCell, rules_.root, &end_, nullptr, 0, false}, budget);
  return state({{automata_->state_of(empty, budget), root}}, budget);
}

// All that can be entered from a state without a byte.
class Grammar::Completion {
 public:
  Completion(Grammar& grammar, State& state, Budget& budget) : grammar_(grammar), state_(state), budget_(budget) {}

  void run() {
    for (const Thread& thread : state_.arrived) {
      threads_.push_back(thread);
      if (thread.automaton->accepts) reach(nullptr, thread.continuation);
    }
    while (!open_.empty()) {
      const auto [expression, continuation] = open_.back();
      open_.pop_back();
      budget_.spend(1);
      if (expression == nullptr)
        go_on(continuation);
      else
        enter(expression, continuation);
    }
    gather();
  }

 private:
  struct Hash {
    size_t operator()(const std::pair<const Expression*, const Continuation*>& of) const {
      return mixed(mixed(0, of.first), of.second);
    }
  };

  // Each is entered once. In ambiguous grammars most are reached in many ways, which takes as long as entering them.
  void reach(const Expression* expression, const Continuation* continuation) {
    budget_.spend(kReachSteps);
    if (reached_.emplace(expression, continuation).second) open_.emplace_back(expression, continuation);
  }

  void go_on(const Continuation* from) {
    if (from->kind == Continuation::Kind::kEnd) {
      state_.accepts = true;
    } else if (from->kind == Continuation::Kind::kCell) {
      reach(from->expression, from->next);
    } else {
      budget_.spend(static_cast<int64_t>(from->caller->calls.size() / kCallsInStep));
      for (const auto& [rule, continuations] : from->caller->calls) {
        if (rule != from->rule) continue;
        for (const Continuation* each : continuations) reach(nullptr, each);
      }
      if (from->caller == &state_) ended_.insert(from->rule);
    }
  }

  void enter(const Expression* what, const Continuation* next) {
    if (what->regular && !what->delimited && what->kind != Kind::kSequence) {
      enter_automaton(what, next);
      return;
    }
    switch (what->kind) {
      case Kind::kSequence: {
        const auto [beginning, rest] = grammar_.automata_->split(what);
        const Continuation* then = rest->kind == Kind::kEmpty ? next : cell(rest, next);
        if (beginning->regular && !is_delimited_part(beginning))
          enter_automaton(beginning, then);
        else
          reach(beginning, then);
        break;
      }
      case Kind::kChoice:
        for (const Expression* option : what->options) reach(option, next);
        break;
      case Kind::kRepeat: {
        if (what->min == 0) reach(nullptr, next);
        const uint32_t min = what->min == 0 ? 0 : what->min - 1;
        const uint32_t max = what->max == kUnbounded ? kUnbounded : what->max - 1;
        const Expression* more = max == 0 ? nullptr : grammar_.automata_->repeat(what->first, min, max);
        reach(what->first, more == nullptr ? next : cell(more, next));
        break;
      }
      case Kind::kCall:
        call(what, next);
        break;
      default:
        break;
    }
  }

  // A part that was split off is an automaton even where it has its own end in it; only what is delimited within is
  // not.
  static bool is_delimited_part(const Expression* beginning) {
    return beginning->kind != Kind::kSequence ? beginning->delimited : beginning->first->delimited;
  }

  const Continuation* cell(const Expression* expression, const Continuation* next) {
    return grammar_.continuation({Continuation::Kind::kCell, expression, next, nullptr, 0, false}, budget_);
  }

  void enter_automaton(const Expression* what, const Continuation* next) {
    threads_.push_back({grammar_.automata_->state_of(what, budget_), next});
    if (what->nullable) reach(nullptr, next);
  }

  void call(const Expression* what, const Continuation* next) {
    const Expression* body = grammar_.rules_.bodies[what->rule];
    if (next->kind != Continuation::Kind::kCell) {
      // Nothing follows the call itself.
      reach(body, next);
      return;
    }
    auto& calls = state_.calls;
    budget_.spend(static_cast<int64_t>(calls.size() / kCallsInStep));
    auto known = std::find_if(calls.begin(), calls.end(), [&](const auto& each) { return each.first == what->rule; });
    if (known != calls.end()) {
      known->second.push_back(next);
      if (ended_.contains(what->rule)) reach(nullptr, next);
      return;
    }
    calls.push_back({what->rule, {next}});
    reach(body,
          grammar_.continuation({Continuation::Kind::kReturn, nullptr, nullptr, &state_, what->rule, false}, budget_));
  }

  // What goes on alike is one thread.
  void gather() {
    std::stable_sort(threads_.begin(), threads_.end(), by_continuation);
    for (size_t i = 0, end; i < threads_.size(); i = end) {
      std::vector<AutomatonState*> states;
      for (end = i; end < threads_.size() && threads_[end].continuation == threads_[i].continuation; end++) {
        states.push_back(threads_[end].automaton);
      }
      AutomatonState* all = grammar_.automata_->united(states, budget_);
      const Edges& edges = grammar_.automata_->edges(all, budget_);
      if (edges.count == 0) continue;
      for (const Edges::Range& range : edges.all()) {
        for (size_t byte = range.first; byte <= range.last; byte++) state_.first_bytes.set(byte);
      }
      state_.threads.push_back({all, threads_[i].continuation});
    }
    state_.threads.shrink_to_fit();
  }

  Grammar& grammar_;
  State& state_;
  Budget& budget_;
  std::vector<Thread> threads_;
  std::vector<std::pair<const Expression*, const Continuation*>> open_;
  std::unordered_set<std::pair<const Expression*, const Continuation*>, Hash> reached_;
  std::unordered_set<uint32_t> ended_;
};

void Grammar::complete(State* state, Budget& budget) {
  if (state->is_complete) return;
  const size_t before = bytes_of(*state);
  try {
    Completion(*this, *state, budget).run();
  } catch (...) {
    // As if it had not begun.
    state->threads.clear();
    state->calls.clear();
    state->first_bytes.reset();
    state->accepts = false;
    throw;
  }
  state->is_complete = true;
  allocate(bytes_of(*state) - before, budget);
}

State* Grammar::step(State* from, uint8_t byte, Budget& budget) {
  complete(from, budget);
  const auto known = std::lower_bound(from->next.begin(), from->next.end(), byte,
                                      [](const auto& each, uint8_t sought) { return each.first < sought; });
  budget.spend(1);
  if (known != from->next.end() && known->first == byte) return known->second;
  State* to = nullptr;
  if (from->first_bytes[byte]) {
    std::vector<Thread> arrived;
    for (const Thread& thread : from->threads) {
      AutomatonState* next = automata_->step(thread.automaton, byte, budget);
      if (next != nullptr) arrived.push_back({next, thread.continuation});
    }
    budget.spend(static_cast<int64_t>(from->threads.size()));
    arrived.shrink_to_fit();
    to = state(std::move(arrived), budget);
  }
  allocate(sizeof(from->next[0]), budget);
  from->next.insert(known, {byte, to});
  return to;
}

void Grammar::walk(size_t length_class, uint32_t top, State* state, std::vector<uint32_t>& words, Budget& budget) {
  const TokenTrie& trie = vocabulary_->trie(length_class);
  const uint32_t base = trie.nodes[top].depth;
  const auto allow = [&](uint32_t node) {
    for (const uint32_t id : trie.tokens_of(node)) words[id / 32] |= 1u << id % 32;
  };
  allow(top);
  std::vector<State*> path{state};
  for (uint32_t at = top + 1, end = top + trie.nodes[top].size; at < end;) {
    const TokenTrie::Node& node = trie.nodes[at];
    State* to = step(path[node.depth - base - 1], node.byte, budget);
    if (to == nullptr) {
      at += node.size;
      continue;
    }
    path.resize(node.depth - base);
    path.push_back(to);
    allow(at++);
  }
}

std::shared_ptr<const TokenMask> Grammar::mask(State* from, Budget& budget) {
  complete(from, budget);
  if (auto known = from->mask.lock()) return known;
  std::vector<uint32_t> words(vocabulary_->words());
  if (from->accepts) {
    for (const uint32_t id : vocabulary_->end_ids()) words[id / 32] |= 1u << id % 32;
  }
  std::vector<Thread> narrow, wide;
  for (const Thread& thread : from->threads) (thread.automaton->wide ? wide : narrow).push_back(thread);
  // Few tokens begin with what narrow ones allow: they are all tried.
  if (!narrow.empty()) {
    State* start = state(std::move(narrow), budget);
    for (size_t at = 0; at < kLengthClasses; at++) walk(at, 0, start, words, budget);
  }
  // Of wide ones the tokens that do not leave the automaton are known, and where others leave it.
  std::stable_sort(wide.begin(), wide.end(),
                   [](const Thread& a, const Thread& b) { return a.automaton < b.automaton; });
  const Expression* empty = automata_->expressions().empty();
  for (size_t i = 0, end; i < wide.size(); i = end) {
    AutomatonState* automaton = wide[i].automaton;
    std::vector<Thread> left;
    for (end = i; end < wide.size() && wide[end].automaton == automaton; end++) {
      left.push_back({automata_->state_of(empty, budget), wide[end].continuation});
    }
    State* behind = nullptr;
    for (size_t at = 0; at < kLengthClasses; at++) {
      const auto slice = vocabulary_->slice(automata_, automaton, at, budget);
      budget.spend(static_cast<int64_t>((slice->words.size() + slice->tokens.size()) / kWordsInStep));
      for (size_t word = 0; word < slice->words.size(); word++) words[word] |= slice->words[word];
      for (const uint32_t id : slice->tokens) words[id / 32] |= 1u << id % 32;
      if (slice->exits.empty()) continue;
      if (behind == nullptr) {
        behind = state(std::move(left), budget);
        complete(behind, budget);
      }
      uint32_t first = 0;
      for (const auto& [byte, last] : slice->exits) {
        if (behind->first_bytes[byte]) {
          State* to = step(behind, byte, budget);
          for (uint32_t exit = first; to != nullptr && exit < last; exit++) {
            walk(at, slice->exit_nodes[exit], to, words, budget);
          }
        }
        first = last;
      }
    }
  }
  auto made = vocabulary_->mask(std::move(words));
  from->mask = made;
  return made;
}

void Grammar::mark(State* state, std::vector<State*>& open) {
  if (state == nullptr || state->is_marked) return;
  state->is_marked = true;
  open.push_back(state);
}

void Grammar::mark(const Continuation* of, std::vector<State*>& open) {
  for (; of != nullptr && !of->is_marked; of = of->next) {
    of->is_marked = true;
    mark(of->caller, open);
  }
}

void Grammar::rest() {
  if (allocated_bytes() <= kRestBytes) return;
  free_unused();
  if (allocated_bytes() <= kRestBytes) return;
  rules_ = {};
  automata_ = nullptr;
  automata_bytes_ = 0;
  epoch_ = kNoEpoch;
}

void Grammar::free_unused() {
  std::vector<State*> open;
  for (const Matcher* matcher : matchers_) {
    for (State* state : matcher->states_) mark(state, open);
  }
  while (!open.empty()) {
    const State& state = *open.back();
    open.pop_back();
    for (const Thread& thread : state.arrived) mark(thread.continuation, open);
    for (const Thread& thread : state.threads) mark(thread.continuation, open);
    for (const auto& call : state.calls) {
      for (const Continuation* each : call.second) mark(each, open);
    }
  }
  for (State* state : states_) {
    std::erase_if(state->next, [](const auto& each) { return each.second != nullptr && !each.second->is_marked; });
  }
  size_t bytes = 0;
  std::erase_if(states_, [&](State* state) {
    if (state->is_marked) return false;
    delete state;
    return true;
  });
  for (State* state : states_) {
    state->is_marked = false;
    bytes += bytes_of(*state);
  }
  std::erase_if(continuations_, [&](const Continuation* each) {
    if (!each->is_marked) {
      delete each;
      return true;
    }
    each->is_marked = false;
    bytes += sizeof(Continuation) + 48;
    return false;
  });
  end_.is_marked = false;
  allocated_ = bytes;
  free_at_ = std::max(kFreeAt, 2 * bytes);
}

Matcher::Matcher(std::shared_ptr<Grammar> grammar) : grammar_(std::move(grammar)) {
  const std::lock_guard lock(grammar_->mutex());
  grammar_->matchers_.insert(this);
}

Matcher::Matcher(const Matcher& other) : grammar_(other.grammar_) {
  const std::lock_guard lock(grammar_->mutex());
  states_ = other.states_;
  grammar_->matchers_.insert(this);
}

Matcher::~Matcher() {
  const std::lock_guard lock(grammar_->mutex());
  grammar_->matchers_.erase(this);
  if (grammar_->matchers_.empty()) grammar_->rest();
}

State* Matcher::now(Budget& budget) {
  if (states_.empty()) states_.push_back(grammar_->start(budget));
  return states_.back();
}

bool Matcher::accept(uint32_t token, Budget& budget) {
  Vocabulary& vocabulary = grammar_->vocabulary();
  if (token >= vocabulary.size() || vocabulary.token(token).empty()) return false;
  return accept(vocabulary.token(token), budget);
}

bool Matcher::accept(std::span<const uint8_t> bytes, Budget& budget) {
  State* state = now(budget);
  for (const uint8_t byte : bytes) {
    state = grammar_->step(state, byte, budget);
    if (state == nullptr) return false;
  }
  states_.push_back(state);
  if (states_.size() > kRemembered + 1) states_.pop_front();
  return true;
}

bool Matcher::roll_back(size_t tokens) {
  if (tokens >= states_.size()) return tokens == 0;
  states_.resize(states_.size() - tokens);
  return true;
}

bool Matcher::accepts(Budget& budget) {
  State* state = now(budget);
  grammar_->complete(state, budget);
  return state->accepts;
}

std::shared_ptr<const TokenMask> Matcher::mask(Budget& budget) { return grammar_->mask(now(budget), budget); }

}  // namespace rocmforge::constraints
