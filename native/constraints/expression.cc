#include "expression.h"

#include <algorithm>
#include <stdexcept>

namespace rocmforge::constraints {
namespace {

using Kind = Expression::Kind;

constexpr size_t kNarrowBytes = 22;  // the hexadecimal digits of both cases
constexpr uint32_t kCounted = 16;

size_t mixed(size_t hash, size_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15 + (hash >> 29); }
size_t address(const void* of) { return reinterpret_cast<size_t>(of) >> 4; }

// Whether the first narrow part of what follows a wide one must come.
bool delimits(const Expression* of) {
  for (; of->kind == Kind::kSequence; of = of->second) {
    if (!of->first->wide && !of->first->nullable) return true;
    if (of->first->wide && !of->first->nullable) return delimits(of->second);
  }
  return !of->wide && !of->nullable;
}

bool is_part(const Expression* of) { return of->regular && !of->delimited; }

using Sequences = std::vector<std::vector<std::pair<uint8_t, uint8_t>>>;

uint32_t encoded(uint32_t code_point, uint8_t* bytes) {
  if (code_point < 0x80) return bytes[0] = static_cast<uint8_t>(code_point), 1;
  const uint32_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  for (uint32_t i = length - 1; i > 0; i--, code_point >>= 6)
    bytes[i] = static_cast<uint8_t>(0x80 | (code_point & 0x3f));
  bytes[0] = static_cast<uint8_t>((0xf0 << (4 - length) & 0xff) | code_point);
  return length;
}

// Sequences of byte ranges for code points of one length in UTF-8 (RFC 3629 section 3): ranges that end within a block
// of 64^n code points are cut at its border.
void add_sequences(uint32_t first, uint32_t last, Sequences& out) {
  for (const uint32_t limit : {0x7fu, 0x7ffu, 0xffffu}) {
    if (first <= limit && last > limit) {
      add_sequences(first, limit, out);
      add_sequences(limit + 1, last, out);
      return;
    }
  }
  for (uint32_t bits = 6; bits < 24 && last >= 0x80; bits += 6) {
    const uint32_t mask = (1u << bits) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      add_sequences(first, first | mask, out);
      add_sequences((first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      add_sequences(first, (last & ~mask) - 1, out);
      add_sequences(last & ~mask, last, out);
      return;
    }
  }
  uint8_t low[4], high[4];
  const uint32_t length = encoded(first, low);
  encoded(last, high);
  auto& made = out.emplace_back();
  for (uint32_t i = 0; i < length; i++) made.emplace_back(low[i], high[i]);
}

}  // namespace

size_t ExpressionTable::Hash::operator()(const Expression* of) const {
  size_t hash = mixed(static_cast<size_t>(of->kind), of->min);
  hash = mixed(mixed(hash, of->max), (static_cast<size_t>(of->grammar) << 32) | of->rule);
  hash = mixed(mixed(hash, address(of->bytes)), std::hash<std::string_view>()(of->text));
  hash = mixed(mixed(hash, address(of->first)), address(of->second));
  for (const Expression* option : of->options) hash = mixed(hash, option->id);
  return hash;
}

bool ExpressionTable::Equal::operator()(const Expression* a, const Expression* b) const {
  return a->kind == b->kind && a->min == b->min && a->max == b->max && a->rule == b->rule && a->grammar == b->grammar &&
         a->bytes == b->bytes && a->text == b->text && a->first == b->first && a->second == b->second &&
         a->options == b->options;
}

ExpressionTable::ExpressionTable() {
  nothing_ = intern({.kind = Kind::kNothing});
  empty_ = intern({.kind = Kind::kEmpty, .nullable = true});
}

const Expression* ExpressionTable::intern(Expression&& made) {
  lookups_++;
  const auto known = known_.find(&made);
  if (known != known_.end()) return *known;
  made.id = static_cast<uint32_t>(expressions_.size());
  allocated_ += sizeof(Expression) + 48 + made.options.size() * sizeof(Expression*);
  const Expression* kept = &expressions_.emplace_back(std::move(made));
  known_.insert(kept);
  return kept;
}

const Expression* ExpressionTable::bytes(const ByteSet& set) {
  if (set.none()) return nothing_;
  const auto known = known_sets_.find(set);
  const ByteSet* kept = known == known_sets_.end() ? &sets_.emplace_back(set) : known->second;
  if (known == known_sets_.end()) known_sets_.emplace(set, kept);
  return intern({.kind = Kind::kBytes, .wide = set.count() > kNarrowBytes, .bytes = kept});
}

const Expression* ExpressionTable::literal(std::string_view text) {
  if (text.empty()) return empty_;
  Expression made{.kind = Kind::kLiteral, .text = text};
  const auto known = known_.find(&made);
  if (known != known_.end()) return *known;
  allocated_ += text.size();
  made.text = texts_.emplace_back(text);
  return intern(std::move(made));
}

const Expression* ExpressionTable::behind_first(const Expression* literal) {
  return literal->text.size() == 1 ? empty_ : intern({.kind = Kind::kLiteral, .text = literal->text.substr(1)});
}

const Expression* ExpressionTable::characters(const std::vector<uint32_t>& pairs) {
  Sequences sequences;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) add_sequences(pairs[i], pairs[i + 1], sequences);
  std::stable_sort(sequences.begin(), sequences.end());
  return utf8(sequences, 0, sequences.size(), 0);
}

const Expression* ExpressionTable::utf8(const Sequences& sequences, size_t from, size_t to, size_t at) {
  std::vector<const Expression*> options;
  while (from < to) {
    const auto range = sequences[from][at];
    size_t end = from;
    while (end < to && sequences[end][at] == range) end++;
    ByteSet set;
    for (uint32_t byte = range.first; byte <= range.second; byte++) set.set(byte);
    const bool is_last = sequences[from].size() == at + 1;
    options.push_back(sequence(bytes(set), is_last ? empty_ : utf8(sequences, from, end, at + 1)));
    from = end;
  }
  return choice(std::move(options));
}

const Expression* ExpressionTable::sequence(const Expression* first, const Expression* second) {
  if (first == nothing_ || second == nothing_) return nothing_;
  if (first == empty_) return second;
  if (second == empty_) return first;
  // To the right, so that what follows a part is one expression.
  std::vector<const Expression*> parts;
  for (; first->kind == Kind::kSequence; first = first->second) parts.push_back(first->first);
  parts.push_back(first);
  copied_parts_ += parts.size();
  for (; !parts.empty(); parts.pop_back()) {
    const Expression* part = parts.back();
    second = intern({.kind = Kind::kSequence,
                     .nullable = part->nullable && second->nullable,
                     .regular = part->regular && second->regular,
                     .wide = part->wide || second->wide,
                     .delimited = part->delimited || second->delimited || (part->wide && delimits(second)),
                     .counts = part->counts || second->counts,
                     .first = part,
                     .second = second});
  }
  return second;
}

const Expression* ExpressionTable::choice(std::vector<const Expression*> given) {
  std::vector<const Expression*> options;
  ByteSet set;
  const auto add = [&](const Expression* option) {
    if (option->kind == Kind::kBytes)
      set |= *option->bytes;
    else if (option != nothing_)
      options.push_back(option);
  };
  for (const Expression* option : given) {
    if (option->kind != Kind::kChoice)
      add(option);
    else
      for (const Expression* inner : option->options) add(inner);
  }
  if (set.any()) options.push_back(bytes(set));
  std::sort(options.begin(), options.end(), [](auto* a, auto* b) { return a->id < b->id; });
  options.erase(std::unique(options.begin(), options.end()), options.end());
  if (options.empty()) return nothing_;
  if (options.size() == 1) return options[0];
  Expression made{.kind = Kind::kChoice};
  for (const Expression* option : options) {
    made.nullable |= option->nullable;
    made.regular &= option->regular;
    made.wide |= option->wide;
    made.delimited |= option->delimited;
    made.counts |= option->counts;
  }
  made.options = std::move(options);
  return intern(std::move(made));
}

const Expression* ExpressionTable::repeat(const Expression* what, uint32_t min, uint32_t max) {
  if (max == 0 || what == empty_) return empty_;
  if (what == nothing_) return min == 0 ? empty_ : nothing_;
  // Repetitions of nothing count as well.
  if (what->nullable) min = 0;
  if (min == 1 && max == 1) return what;
  if (min == 0 && max == 1 && what->nullable) return what;
  return intern({.kind = Kind::kRepeat,
                 .nullable = min == 0,
                 .regular = what->regular,
                 .wide = what->wide,
                 .delimited = what->delimited,
                 .counts = what->counts || min > kCounted || (max > kCounted && max != kUnbounded),
                 .min = min,
                 .max = max,
                 .first = what});
}

const Expression* ExpressionTable::new_reference(bool nullable) {
  const auto rule = static_cast<uint32_t>(bodies_.size());
  bodies_.push_back(nothing_);
  return intern({.kind = Kind::kReference, .nullable = nullable, .wide = true, .rule = rule});
}

void ExpressionTable::define(const Expression* reference, const Expression* body) { bodies_[reference->rule] = body; }

const Expression* ExpressionTable::call(uint32_t rule, uint32_t grammar) {
  return intern({.kind = Kind::kCall, .regular = false, .rule = rule, .grammar = grammar});
}

const Expression* ExpressionTable::clamped(const Expression* of, uint32_t length) {
  if (!of->counts) return of;
  const auto at = std::find(std::begin(kLengths), std::end(kLengths), length) - std::begin(kLengths);
  auto& known = clamped_[at];
  const auto found = known.find(of);
  if (found != known.end()) return found->second;
  const Expression* made = of;
  if (of->kind == Kind::kRepeat) {
    // Each repetition takes a byte at least: a text of `length` bytes ends before more of them count.
    const uint32_t max = of->max > length ? kUnbounded : of->max;
    made = repeat(clamped(of->first, length), std::min(of->min, length + 1), max);
  } else if (of->kind == Kind::kChoice) {
    std::vector<const Expression*> options;
    for (const Expression* option : of->options) options.push_back(clamped(option, length));
    made = choice(std::move(options));
  } else if (of->kind == Kind::kSequence) {
    std::vector<const Expression*> parts;
    const Expression* rest = of;
    for (; rest->kind == Kind::kSequence; rest = rest->second) parts.push_back(rest->first);
    made = clamped(rest, length);
    for (; !parts.empty(); parts.pop_back()) made = sequence(clamped(parts.back(), length), made);
  }
  allocated_ += 48;
  known.emplace(of, made);
  return made;
}

std::pair<const Expression*, const Expression*> ExpressionTable::split(const Expression* whole) {
  const auto known = split_.find(whole);
  if (known != split_.end()) return known->second;
  std::vector<const Expression*> parts;
  const Expression* rest = whole;
  const auto take = [&] {
    const bool is_sequence = rest->kind == Kind::kSequence;
    parts.push_back(is_sequence ? rest->first : rest);
    rest = is_sequence ? rest->second : empty_;
  };
  const auto next = [&] { return rest->kind == Kind::kSequence ? rest->first : rest; };
  const bool is_wide = next()->wide;
  const bool is_first_part = is_part(next());
  take();
  while (is_first_part && rest != empty_ && is_part(next()) && next()->wide == is_wide) take();
  // Behind characters what may end them, up to the byte that must.
  while (is_first_part && is_wide && rest != empty_ && is_part(next())) {
    const Expression* part = next();
    if (part->kind == Kind::kLiteral && part->text.size() > 1) {
      take();
      parts.back() = literal(part->text.substr(0, 1));
      rest = sequence(literal(part->text.substr(1)), rest);
    } else {
      take();
    }
    if (!part->nullable && !part->wide) break;
  }
  const Expression* beginning = empty_;
  for (; !parts.empty(); parts.pop_back()) beginning = sequence(parts.back(), beginning);
  allocated_ += 64;
  return split_.emplace(whole, std::make_pair(beginning, rest)).first->second;
}

}  // namespace rocmforge::constraints
