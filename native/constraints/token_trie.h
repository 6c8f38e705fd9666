// A vocabulary's tokens as tries over their bytes, and the automata and masks that its grammars share.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "automaton.h"

namespace rocmforge::constraints {

// Nodes in preorder: a subtree is a range.
struct TokenTrie {
  struct Node {
    uint32_t size;         // of the subtree, the node included
    uint32_t first_token;  // in `tokens`; those up to the next node's are the node's
    uint16_t depth;        // bytes up to here
    uint8_t byte;          // the last of them
  };
  std::vector<Node> nodes;  // the root first, one more behind the last
  std::vector<uint32_t> tokens;

  size_t size() const { return nodes.size() - 1; }
  std::span<const uint32_t> tokens_of(size_t node) const {
    return {tokens.data() + nodes[node].first_token, tokens.data() + nodes[node + 1].first_token};
  }
};

// Tokens that may come next. Equal masks are one object as long as the vocabulary remembers it.
struct TokenMask {
  std::vector<uint32_t> words;  // token i is bit i % 32 of word i / 32
  uint32_t key;                 // no two masks have the same
  bool only_ends;
};

// The tokens of a trie that an automaton matches from a state on.
struct Slice {
  // Those that do not leave it: a list, or as words of a mask where it would be longer.
  std::vector<uint32_t> tokens, words;
  // Nodes whose parent the automaton may end at, by their bytes: what follows decides about them.
  std::vector<std::pair<uint8_t, uint32_t>> exits;  // byte, end of its nodes
  std::vector<uint32_t> exit_nodes;

  size_t bytes() const { return 4 * (tokens.size() + words.size() + exit_nodes.size() + 2 * exits.size()) + 256; }
};

class Vocabulary {
 public:
  // `offsets`: where in `bytes` each token begins, and the end. A token of no bytes is allowed only where it is an end.
  // Throws std::invalid_argument for offsets that do not rise or leave the bytes.
  Vocabulary(std::vector<uint8_t> bytes, std::vector<uint32_t> offsets, std::vector<uint32_t> end_ids);

  size_t size() const { return offsets_.size() - 1; }
  size_t words() const { return (size() + 31) / 32; }
  std::span<const uint8_t> token(uint32_t id) const {
    return {bytes_.data() + offsets_[id], bytes_.data() + offsets_[id + 1]};
  }
  const std::vector<uint32_t>& end_ids() const { return end_ids_; }
  bool is_end(uint32_t id) const { return (end_words_[id / 32] >> (id % 32) & 1) != 0; }
  const TokenTrie& trie(size_t length_class) const { return tries_[length_class]; }

  // The automata for grammars that are prepared now. Once they have taken `kAutomataBytes`, others take their place,
  // and they go with their last grammar.
  std::shared_ptr<Automata> automata();

  // `is_base`: it is needed to build another one, and is built from scratch itself.
  std::shared_ptr<const Slice> slice(const std::shared_ptr<Automata>& automata, AutomatonState* state,
                                     size_t length_class, Budget& budget, bool is_base = false);
  std::shared_ptr<const TokenMask> mask(std::vector<uint32_t> words);
  // Bytes of tries, automata, slices and masks.
  size_t allocated_bytes();

 private:
  static constexpr size_t kAutomataBytes = 16 << 20;
  static constexpr size_t kSliceBytes = 16 << 20;
  static constexpr size_t kMasks = 512;

  struct SliceKey {
    const AutomatonState* state;
    size_t length_class;
    bool operator==(const SliceKey&) const = default;
  };
  struct SliceHash {
    size_t operator()(const SliceKey& of) const {
      return (reinterpret_cast<size_t>(of.state) >> 4) * 0x9e3779b97f4a7c15 + of.length_class;
    }
  };
  struct SliceEntry {
    SliceKey key;
    // A state's address is another's once its automata are gone.
    std::shared_ptr<Automata> automata;
    std::shared_ptr<const Slice> slice;
  };

  std::shared_ptr<const Slice> build_slice(const std::shared_ptr<Automata>& automata, AutomatonState* state,
                                           size_t length_class, Budget& budget, bool is_base);
  // The state that most bytes lead to, where it has a byte that leads to itself, and is another one; else null.
  static AutomatonState* loop_behind(Automata& automata, AutomatonState* state, Budget& budget);

  std::vector<uint8_t> bytes_;
  std::vector<uint32_t> offsets_;
  std::vector<uint32_t> end_ids_;
  std::vector<uint32_t> end_words_;
  std::array<TokenTrie, kLengthClasses> tries_;

  std::mutex mutex_;
  std::shared_ptr<Automata> automata_;
  uint64_t epochs_ = 0;
  // The one used last in front.
  std::list<SliceEntry> slices_;
  std::unordered_map<SliceKey, std::list<SliceEntry>::iterator, SliceHash> known_slices_;
  size_t slice_bytes_ = 0;
  std::list<std::pair<uint64_t, std::shared_ptr<const TokenMask>>> masks_;
  std::unordered_multimap<uint64_t, decltype(masks_)::iterator> known_masks_;
  uint32_t masks_made_ = 0;
};

}  // namespace rocmforge::constraints
