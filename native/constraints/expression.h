// Regular expressions over bytes, with calls of rules that are not regular. Equal expressions are one object, whatever
// grammar they come from, so that automata and what is cached of them are shared by all grammars of a vocabulary.
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace rocmforge::constraints {

using ByteSet = std::bitset<256>;

constexpr uint32_t kUnbounded = UINT32_MAX;

struct Expression {
  enum class Kind : uint8_t { kNothing, kEmpty, kBytes, kLiteral, kSequence, kChoice, kRepeat, kReference, kCall };

  Kind kind;
  bool nullable = false;
  // Without calls: a finite automaton matches it.
  bool regular = true;
  // Takes more than kNarrowBytes bytes somewhere, so that many tokens match.
  bool wide = false;
  // Some wide part is followed by a narrow one that must come, as the characters of a string are by its quotation mark.
  bool delimited = false;
  // Counts further than kCounted.
  bool counts = false;
  uint32_t id = 0;
  uint32_t min = 0, max = 0;                    // kRepeat
  uint32_t rule = 0, grammar = 0;               // kCall: the rule; kReference: its index in the table
  const ByteSet* bytes = nullptr;               // kBytes
  std::string_view text = {};                   // kLiteral, never empty
  const Expression* first = nullptr;            // kSequence, kRepeat
  const Expression* second = nullptr;           // kSequence
  std::vector<const Expression*> options = {};  // kChoice, by id
};

// All expressions of a vocabulary. Not synchronized; expressions themselves never change and never move.
class ExpressionTable {
 public:
  ExpressionTable();
  ExpressionTable(const ExpressionTable&) = delete;
  ExpressionTable& operator=(const ExpressionTable&) = delete;

  const Expression* nothing() const { return nothing_; }
  const Expression* empty() const { return empty_; }
  const Expression* bytes(const ByteSet& set);
  const Expression* literal(std::string_view text);
  // The text of a literal without its first byte, of which no copy is made.
  const Expression* behind_first(const Expression* literal);
  // Code points in UTF-8, as sorted pairs of a first and a last one, without surrogates.
  const Expression* characters(const std::vector<uint32_t>& pairs);
  const Expression* sequence(const Expression* first, const Expression* second);
  const Expression* choice(std::vector<const Expression*> options);
  const Expression* repeat(const Expression* what, uint32_t min, uint32_t max);
  // A rule that only its own end, or the end of rules that refer to one another, refers to.
  const Expression* new_reference(bool nullable);
  void define(const Expression* reference, const Expression* body);
  const Expression* body(const Expression* reference) const { return bodies_[reference->rule]; }
  const Expression* call(uint32_t rule, uint32_t grammar);
  // The same for texts of at most `length` bytes, with counts no further than those reach.
  const Expression* clamped(const Expression* expression, uint32_t length);
  // What an expression begins with, up to where another automaton had better begin, and what is behind that.
  std::pair<const Expression*, const Expression*> split(const Expression* sequence);

  size_t allocated_bytes() const { return allocated_; }
  // Parts that sequences have copied so far: those of what they begin with.
  uint64_t copied_parts() const { return copied_parts_; }
  // Expressions looked up or made so far.
  size_t lookups() const { return lookups_; }
  // More than the table itself: automata over it.
  void count_bytes(size_t bytes) { allocated_ += bytes; }

 private:
  struct Hash {
    size_t operator()(const Expression* of) const;
  };
  struct Equal {
    bool operator()(const Expression* a, const Expression* b) const;
  };
  const Expression* intern(Expression&& made);
  const Expression* utf8(const std::vector<std::vector<std::pair<uint8_t, uint8_t>>>& sequences, size_t from, size_t to,
                         size_t at);

  std::deque<Expression> expressions_;
  std::unordered_set<const Expression*, Hash, Equal> known_;
  std::deque<std::string> texts_;
  std::deque<ByteSet> sets_;
  std::unordered_map<ByteSet, const ByteSet*> known_sets_;
  std::vector<const Expression*> bodies_;
  std::unordered_map<const Expression*, const Expression*> clamped_[4];
  std::unordered_map<const Expression*, std::pair<const Expression*, const Expression*>> split_;
  size_t allocated_ = 0;
  uint64_t copied_parts_ = 0;
  size_t lookups_ = 0;
  const Expression* nothing_;
  const Expression* empty_;
};

// Lengths of tokens, in bytes, that are masked together: automata that differ beyond a length alone have the same
// tokens.
constexpr uint32_t kLengths[] = {16, 32, 64, UINT16_MAX};
constexpr size_t kLengthClasses = 4;

}  // namespace rocmforge::constraints
