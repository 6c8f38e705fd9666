#include "grammar.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

namespace rocmforge::constraints {
namespace {

enum class Tag : uint8_t { kText, kCharacters, kRule, kSequence, kChoice, kRepeat };

constexpr size_t kMostRules = 1 << 20;
constexpr int kMostDepth = 1000;
// A rule whose sequence has more parts is called, not copied to where it is used: rules that each use the next one
// twice would double with each of them.
constexpr uint64_t kMostInlinedParts = 1024;
// Parts that one grammar's sequences may copy: some hundred milliseconds.
constexpr uint64_t kMostCopiedParts = 2'000'000;

struct Part {
  Tag tag;
  uint32_t rule = 0, min = 0, max = 0;
  std::string_view text;  // of characters: their set as it was written
  std::vector<Part> parts;
};

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> buffer) : buffer_(buffer) {}

  // The set of a part of characters.
  std::vector<uint32_t> pairs() {
    std::vector<uint32_t> made;
    uint64_t next = 0;
    for (uint32_t left = count(); left > 0; left--) {
      // Each as the distance from the one before.
      next += number();
      if (next > 0x10ffff) throw InvalidGrammar("a character of a grammar is beyond Unicode");
      made.push_back(static_cast<uint32_t>(next));
    }
    if (made.size() % 2 != 0) throw InvalidGrammar("a range of characters has no end");
    return made;
  }

  std::vector<Part> rules() {
    const uint32_t count = number();
    if (count == 0 || count > kMostRules) throw InvalidGrammar("a grammar has no rules, or too many");
    rules_ = count;
    std::vector<Part> made;
    for (uint32_t i = 0; i < count; i++) made.push_back(part(0));
    if (at_ != buffer_.size()) throw InvalidGrammar("a grammar goes on behind its last rule");
    return made;
  }

 private:
  uint8_t byte() {
    if (at_ >= buffer_.size()) throw InvalidGrammar("a grammar breaks off");
    return buffer_[at_++];
  }

  // LEB128.
  uint32_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      const uint8_t next = byte();
      value |= static_cast<uint64_t>(next & 0x7f) << shift;
      if (next < 0x80) {
        if (value > UINT32_MAX) break;
        return static_cast<uint32_t>(value);
      }
    }
    throw InvalidGrammar("a number of a grammar has more than 32 bits");
  }

  // Of things that take a byte each, at least.
  uint32_t count() {
    const uint32_t value = number();
    if (value > buffer_.size() - at_) throw InvalidGrammar("a grammar breaks off");
    return value;
  }

  Part part(int depth) {
    if (depth > kMostDepth) throw InvalidGrammar("parts of a grammar lie too deep in one another");
    Part made{.tag = static_cast<Tag>(byte()), .text = {}, .parts = {}};
    switch (made.tag) {
      case Tag::kText: {
        const uint32_t length = count();
        made.text = {reinterpret_cast<const char*>(buffer_.data()) + at_, length};
        at_ += length;
        return made;
      }
      case Tag::kCharacters: {
        // Most sets come often: they are read when they come first.
        const size_t from = at_;
        for (uint32_t left = count(); left > 0; left--) number();
        made.text = {reinterpret_cast<const char*>(buffer_.data()) + from, at_ - from};
        return made;
      }
      case Tag::kRule:
        made.rule = number();
        if (made.rule >= rules_) throw InvalidGrammar("a grammar refers to a rule that it does not have");
        return made;
      case Tag::kSequence:
      case Tag::kChoice:
        for (uint32_t left = count(); left > 0; left--) made.parts.push_back(part(depth + 1));
        return made;
      case Tag::kRepeat:
        made.min = number();
        made.max = number();
        made.max = made.max == 0 ? kUnbounded : made.max - 1;
        if (made.max < made.min) throw InvalidGrammar("a repetition of a grammar ends before it begins");
        made.parts.push_back(part(depth + 1));
        return made;
    }
    throw InvalidGrammar("a grammar has a part of a kind that there is not");
  }

  std::span<const uint8_t> buffer_;
  size_t at_ = 0;
  uint32_t rules_ = 0;
};

template <typename Visit>
void each_use(const Part& of, bool is_last, Visit&& visit) {
  if (of.tag == Tag::kRule) visit(of.rule, is_last);
  for (const Part& part : of.parts) {
    const bool is_end = of.tag == Tag::kChoice || (of.tag == Tag::kSequence && &part == &of.parts.back()) ||
                        (of.tag == Tag::kRepeat && of.max == 1);
    each_use(part, is_last && is_end, visit);
  }
}

class Preparation {
 public:
  Preparation(const std::vector<Part>& rules, ExpressionTable& table)
      : rules_(rules),
        table_(table),
        made_(rules.size()),
        bodies_(rules.size()),
        component_of_(rules.size(), UINT32_MAX),
        empty_(rules.size()) {
    static std::atomic<uint32_t> last{0};
    grammar_ = ++last;
  }

  Rules prepare() {
    for (const auto& component : components()) make(component);
    return {.root = made_[0], .bodies = std::move(bodies_)};
  }

 private:
  // Rules that refer to one another, those that others refer to first (Tarjan).
  std::vector<std::vector<uint32_t>> components() const {
    std::vector<std::vector<uint32_t>> uses(rules_.size()), found;
    for (size_t i = 0; i < rules_.size(); i++) {
      each_use(rules_[i], true, [&](uint32_t rule, bool) { uses[i].push_back(rule); });
    }
    struct Frame {
      uint32_t rule;
      size_t next;
    };
    std::vector<uint32_t> order(rules_.size(), 0), low(rules_.size(), 0), stack;
    std::vector<bool> is_open(rules_.size(), false);
    uint32_t visited = 0;
    for (uint32_t from = 0; from < rules_.size(); from++) {
      if (order[from] != 0) continue;
      std::vector<Frame> frames;
      const auto enter = [&](uint32_t rule) {
        order[rule] = low[rule] = ++visited;
        stack.push_back(rule);
        is_open[rule] = true;
        frames.push_back({rule, 0});
      };
      enter(from);
      while (!frames.empty()) {
        const uint32_t rule = frames.back().rule;
        if (frames.back().next < uses[rule].size()) {
          const uint32_t used = uses[rule][frames.back().next++];
          if (order[used] == 0)
            enter(used);
          else if (is_open[used])
            low[rule] = std::min(low[rule], order[used]);
          continue;
        }
        frames.pop_back();
        if (!frames.empty()) low[frames.back().rule] = std::min(low[frames.back().rule], low[rule]);
        if (low[rule] != order[rule]) continue;
        auto& component = found.emplace_back();
        do {
          component.push_back(stack.back());
          is_open[stack.back()] = false;
          stack.pop_back();
        } while (component.back() != rule);
      }
    }
    return found;
  }

  void make(const std::vector<uint32_t>& component) {
    bool is_recursive = component.size() > 1, is_regular = true;
    for (const uint32_t rule : component) component_of_[rule] = component[0];
    for (const uint32_t rule : component) {
      each_use(rules_[rule], true, [&](uint32_t used, bool is_last) {
        if (component_of_[used] == component[0]) {
          is_recursive = true;
          is_regular &= is_last;
        } else {
          is_regular &= made_[used]->regular;
        }
      });
    }
    if (!is_recursive) {
      const uint32_t rule = component[0];
      const Expression* body = expression(rules_[rule]);
      const bool is_part = body->regular && !body->delimited && parts_of(body) <= kMostInlinedParts;
      if (!is_part) bodies_[rule] = body;
      made_[rule] = is_part ? body : table_.call(rule, grammar_);
      return;
    }
    if (!is_regular) {
      for (const uint32_t rule : component) made_[rule] = table_.call(rule, grammar_);
      for (const uint32_t rule : component) bodies_[rule] = expression(rules_[rule]);
      return;
    }
    // The least fixed point of which of them match nothing at all.
    for (bool changes = true; changes;) {
      changes = false;
      for (const uint32_t rule : component) {
        if (empty_[rule] != 0 || !is_nullable(rules_[rule])) continue;
        empty_[rule] = 1;
        changes = true;
      }
    }
    for (const uint32_t rule : component) made_[rule] = table_.new_reference(empty_[rule] != 0);
    for (const uint32_t rule : component) table_.define(made_[rule], expression(rules_[rule]));
  }

  static uint64_t parts_of(const Expression* body) {
    uint64_t parts = 1;
    for (; body->kind == Expression::Kind::kSequence; body = body->second) parts++;
    return parts;
  }

  bool is_nullable(const Part& of) const {
    switch (of.tag) {
      case Tag::kText:
        return of.text.empty();
      case Tag::kCharacters:
        return false;
      case Tag::kRule:
        return made_[of.rule] == nullptr ? empty_[of.rule] != 0 : made_[of.rule]->nullable;
      case Tag::kSequence:
        return std::all_of(of.parts.begin(), of.parts.end(), [&](auto& part) { return is_nullable(part); });
      case Tag::kChoice:
        return std::any_of(of.parts.begin(), of.parts.end(), [&](auto& part) { return is_nullable(part); });
      case Tag::kRepeat:
        return of.min == 0 || is_nullable(of.parts[0]);
    }
    return false;
  }

  const Expression* expression(const Part& of) {
    switch (of.tag) {
      case Tag::kText:
        return table_.literal(of.text);
      case Tag::kCharacters: {
        const Expression*& known = sets_[of.text];
        if (known == nullptr) {
          const std::span written(reinterpret_cast<const uint8_t*>(of.text.data()), of.text.size());
          known = table_.characters(Reader(written).pairs());
        }
        return known;
      }
      case Tag::kRule:
        return made_[of.rule];
      case Tag::kSequence: {
        const Expression* made = table_.empty();
        for (auto part = of.parts.rbegin(); part != of.parts.rend(); ++part) {
          made = table_.sequence(expression(*part), made);
          if (table_.copied_parts() - copied_before_ > kMostCopiedParts)
            throw InvalidGrammar("a grammar repeats long rules too often; make it simpler");
        }
        return made;
      }
      case Tag::kChoice: {
        std::vector<const Expression*> options;
        for (const Part& part : of.parts) options.push_back(expression(part));
        return table_.choice(std::move(options));
      }
      case Tag::kRepeat: {
        const Expression* what = expression(of.parts[0]);
        // As a choice it keeps a rule at the end of another.
        if (of.min == 0 && of.max == 1) return table_.choice({what, table_.empty()});
        return table_.repeat(what, of.min, of.max);
      }
    }
    throw InvalidGrammar("a grammar has a part of a kind that there is not");
  }

  const std::vector<Part>& rules_;
  ExpressionTable& table_;
  std::vector<const Expression*> made_;
  std::vector<const Expression*> bodies_;
  std::unordered_map<std::string_view, const Expression*> sets_;
  std::vector<uint32_t> component_of_;  // its first rule; none yet for rules that are not made
  std::vector<uint8_t> empty_;          // of recursive regular rules: those that match nothing
  uint32_t grammar_;
  const uint64_t copied_before_ = table_.copied_parts();
};

}  // namespace

Rules read_rules(std::span<const uint8_t> buffer, Automata& automata) {
  const std::vector<Part> rules = Reader(buffer).rules();
  const std::lock_guard lock(automata.mutex());
  const size_t before = automata.expressions().allocated_bytes();
  Rules made = Preparation(rules, automata.expressions()).prepare();
  made.bytes = automata.expressions().allocated_bytes() - before;
  return made;
}

}  // namespace rocmforge::constraints
