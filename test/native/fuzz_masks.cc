// Random grammars, some damaged, and random texts of them, for sanitizers: tools/fuzz-masks.mjs compiles and runs it.
//   fuzz_masks SEED GRAMMARS
// Each mask is held against accepting every token of the vocabulary by itself. Prints what it did; ends with 1 where a mask differs.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "../../native/constraints/matcher.h"

using namespace rocmforge::constraints;

namespace {

std::mt19937_64 random_bits;

uint32_t below(uint32_t count) { return static_cast<uint32_t>(random_bits() % count); }

struct Writer {
  std::vector<uint8_t> bytes;

  void number(uint32_t value) {
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<uint8_t>(value | 0x80));
    bytes.push_back(static_cast<uint8_t>(value));
  }

  void part(uint32_t rules, int depth) {
    const uint32_t tag = depth > 4 ? below(3) : below(6);
    number(tag);
    switch (tag) {
      case 0: {
        const uint32_t length = below(5) == 0 ? below(40) : below(4);
        number(length);
        for (uint32_t i = 0; i < length; i++) bytes.push_back(static_cast<uint8_t>(below(40) == 0 ? 0xff : 'a' + below(4)));
        return;
      }
      case 1: {
        const uint32_t ranges = 1 + below(3);
        number(2 * ranges);
        for (uint32_t i = 0; i < ranges; i++) {
          number(below(3) == 0 ? below(0x3000) : i == 0 ? 'a' + below(4) : below(4));
          number(below(3) == 0 ? below(0x3000) : below(4));
        }
        return;
      }
      case 2:
        number(below(rules));
        return;
      case 3:
      case 4: {
        const uint32_t parts = below(4);
        number(parts);
        for (uint32_t i = 0; i < parts; i++) part(rules, depth + 1);
        return;
      }
      default: {
        const uint32_t least = below(4) == 0 ? below(60) : below(3);
        number(least);
        number(below(3) == 0 ? 0 : least + 1 + (below(4) == 0 ? below(90) : below(3)));
        part(rules, depth + 1);
      }
    }
  }
};

std::shared_ptr<Vocabulary> vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; byte++) tokens.emplace_back(1, static_cast<char>(byte));
  for (int i = 0; i < 60; i++) {
    std::string token;
    for (uint32_t length = 1 + below(below(6) == 0 ? 80 : 8); length > 0; length--) {
      if (below(8) == 0) token += "\xc3\xa9";
      else token += static_cast<char>('a' + below(4));
    }
    tokens.push_back(token);
  }
  tokens.emplace_back();
  std::vector<uint8_t> bytes;
  std::vector<uint32_t> offsets{0};
  for (const std::string& token : tokens) {
    bytes.insert(bytes.end(), token.begin(), token.end());
    offsets.push_back(static_cast<uint32_t>(bytes.size()));
  }
  const auto end = static_cast<uint32_t>(tokens.size() - 1);
  return std::make_shared<Vocabulary>(std::move(bytes), std::move(offsets), std::vector<uint32_t>{end});
}

bool has(const TokenMask& mask, uint32_t id) { return (mask.words[id / 32] >> id % 32 & 1) != 0; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  random_bits.seed(std::strtoull(argv[1], nullptr, 10));
  const long grammars = std::strtol(argv[2], nullptr, 10);
  long masks = 0, invalid = 0, exceeded = 0, tried = 0;
  std::shared_ptr<Vocabulary> words;
  for (long i = 0; i < grammars; i++) {
    if (i % 1000 == 0) words = vocabulary();
    Writer writer;
    const uint32_t rules = 1 + below(6);
    writer.number(rules);
    for (uint32_t rule = 0; rule < rules; rule++) writer.part(rules, 0);
    auto& bytes = writer.bytes;
    if (below(5) == 0) {
      bytes[below(static_cast<uint32_t>(bytes.size()))] = static_cast<uint8_t>(random_bits());
      if (below(2) == 0) bytes.resize(below(static_cast<uint32_t>(bytes.size()) + 1));
    }
    try {
      const auto grammar = std::make_shared<Grammar>(words, bytes);
      Matcher matcher(grammar);
      for (int step = 0; step < 8; step++) {
        // A small budget may end at any place, behind which the matcher must still be whole.
        Budget budget{below(6) == 0 ? below(3000) : 300'000, 4 << 20};
        Matcher copy(matcher);
        const std::lock_guard lock(grammar->mutex());
        matcher.begin();
        std::shared_ptr<const TokenMask> mask;
        try {
          mask = matcher.mask(budget);
          masks++;
          for (uint32_t id = 0; id + 1 < words->size(); id++) {
            Budget own{300'000, 4 << 20};
            if (!words->token(id).empty() && copy.accept(id, own) != has(*mask, id)) {
              std::printf("grammar %ld, step %d: token %u is %s by its mask alone\n", i, step, id,
                          has(*mask, id) ? "allowed" : "refused");
              return 1;
            }
            if (has(*mask, id) && !copy.roll_back(1)) return 1;
            tried++;
          }
          if (copy.accepts(budget) != has(*mask, words->end_ids()[0])) return 1;
        } catch (const BudgetExceeded&) {
          exceeded++;
          continue;
        }
        std::vector<uint32_t> allowed;
        for (uint32_t id = 0; id + 1 < words->size(); id++) {
          if (has(*mask, id)) allowed.push_back(id);
        }
        if (allowed.empty()) break;
        Budget budget_of_token{300'000, 4 << 20};
        if (!matcher.accept(allowed[below(static_cast<uint32_t>(allowed.size()))], budget_of_token)) return 1;
        if (below(5) == 0) matcher.roll_back(below(3));
      }
    } catch (const InvalidGrammar&) {
      invalid++;
    } catch (const BudgetExceeded&) {
      exceeded++;
    }
  }
  std::printf("%ld grammars, %ld invalid: %ld masks, %ld tokens tried, %ld beyond a budget\n", grammars, invalid, masks,
              tried, exceeded);
  return 0;
}
