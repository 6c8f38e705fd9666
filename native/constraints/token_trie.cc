#include "token_trie.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace rocmforge::constraints {
namespace {

uint64_t hash_of(const std::vector<uint32_t>& words) {
  constexpr size_t kLanes = 4;  // enough that multiplications do not wait for one another
  uint64_t lanes[kLanes] = {1, 2, 3, 4};
  for (size_t i = 0; i < words.size(); i++) {
    uint64_t& lane = lanes[i % kLanes];
    lane = (lane ^ words[i]) * 0x9e3779b97f4a7c15;
    lane ^= lane >> 32;
  }
  uint64_t hash = words.size();
  for (const uint64_t lane : lanes) hash = (hash ^ lane) * 0x9e3779b97f4a7c15;
  return hash;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<uint8_t> bytes, std::vector<uint32_t> offsets, std::vector<uint32_t> end_ids)
    : bytes_(std::move(bytes)), offsets_(std::move(offsets)), end_ids_(std::move(end_ids)) {
  if (offsets_.empty() || offsets_.back() != bytes_.size() || !std::is_sorted(offsets_.begin(), offsets_.end())) {
    throw std::invalid_argument("the offsets of a vocabulary must rise to the end of its bytes");
  }
  end_words_.resize(words());
  for (const uint32_t id : end_ids_) {
    if (id >= size()) throw std::invalid_argument("a token that ends a text is not in the vocabulary");
    end_words_[id / 32] |= 1u << id % 32;
  }
  std::array<std::vector<uint32_t>, kLengthClasses> ids;
  for (uint32_t id = 0; id < size(); id++) {
    const size_t length = token(id).size();
    if (length > UINT16_MAX) throw std::invalid_argument("a token has more than 65535 bytes");
    if (length == 0) continue;
    size_t at = 0;
    while (length > kLengths[at]) at++;
    ids[at].push_back(id);
  }
  for (size_t at = 0; at < kLengthClasses; at++) {
    auto& sorted = ids[at];
    std::sort(sorted.begin(), sorted.end(), [this](uint32_t a, uint32_t b) {
      const auto x = token(a), y = token(b);
      const int order = std::memcmp(x.data(), y.data(), std::min(x.size(), y.size()));
      return order != 0 ? order < 0 : x.size() != y.size() ? x.size() < y.size() : a < b;
    });
    TokenTrie& trie = tries_[at];
    trie.nodes.push_back({0, 0, 0, 0});
    std::vector<uint32_t> path{0};  // the node of each depth
    const auto close = [&](size_t depth) {
      for (; path.size() > depth; path.pop_back()) {
        trie.nodes[path.back()].size = static_cast<uint32_t>(trie.nodes.size()) - path.back();
      }
    };
    std::span<const uint8_t> before;
    for (uint32_t i = 0; i < sorted.size(); i++) {
      const auto text = token(sorted[i]);
      const auto same = std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first - text.begin();
      close(static_cast<size_t>(same) + 1);
      for (size_t depth = path.size(); depth <= text.size(); depth++) {
        path.push_back(static_cast<uint32_t>(trie.nodes.size()));
        trie.nodes.push_back({0, i, static_cast<uint16_t>(depth), text[depth - 1]});
      }
      before = text;
    }
    close(0);
    trie.nodes.push_back({0, static_cast<uint32_t>(sorted.size()), 0, 0});
    trie.nodes.shrink_to_fit();
    trie.tokens = std::move(sorted);
  }
}

std::shared_ptr<Automata> Vocabulary::automata() {
  const std::lock_guard lock(mutex_);
  if (automata_ != nullptr && automata_->allocated_bytes() > kAutomataBytes) {
    automata_ = nullptr;
    known_slices_.clear();
    slices_.clear();
    slice_bytes_ = 0;
  }
  if (automata_ == nullptr) automata_ = std::make_shared<Automata>(++epochs_);
  return automata_;
}

std::shared_ptr<const Slice> Vocabulary::slice(const std::shared_ptr<Automata>& automata, AutomatonState* state,
                                               size_t length_class, Budget& budget, bool is_base) {
  const SliceKey key{automata->clamped(state, length_class, budget), length_class};
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_slices_.find(key);
    if (known != known_slices_.end()) {
      slices_.splice(slices_.begin(), slices_, known->second);
      return known->second->slice;
    }
  }
  auto made = build_slice(automata, const_cast<AutomatonState*>(key.state), length_class, budget, is_base);
  const std::lock_guard lock(mutex_);
  if (known_slices_.contains(key)) return made;
  slices_.push_front({key, automata, made});
  known_slices_.emplace(key, slices_.begin());
  slice_bytes_ += made->bytes();
  while (slice_bytes_ > kSliceBytes && slices_.size() > 1) {
    slice_bytes_ -= slices_.back().slice->bytes();
    known_slices_.erase(slices_.back().key);
    slices_.pop_back();
  }
  return made;
}

std::shared_ptr<const Slice> Vocabulary::build_slice(const std::shared_ptr<Automata>& automata, AutomatonState* state,
                                                     size_t length_class, Budget& budget, bool is_base) {
  const TokenTrie& trie = tries_[length_class];
  auto made = std::make_shared<Slice>();
  // Most texts may lead to a state that the texts behind it stay in, as within a name that may be one of some or any
  // other. Its slice is right but where the way from this state leads to another one.
  AutomatonState* base = is_base ? nullptr : loop_behind(*automata, state, budget);
  std::shared_ptr<const Slice> known = base == nullptr ? nullptr : slice(automata, base, length_class, budget, true);
  if (known == nullptr || known->words.empty())
    known = nullptr, base = nullptr;
  else
    base = automata->clamped(base, length_class, budget);
  std::vector<uint32_t> words = known == nullptr ? std::vector<uint32_t>(this->words()) : known->words;
  using Exit = std::pair<uint8_t, uint32_t>;
  std::vector<Exit> added, removed;
  // Of each depth on the way to a node, from this state and from the other one.
  std::vector<std::pair<AutomatonState*, AutomatonState*>> path{{state, base}};
  const auto step = [&](AutomatonState* from, uint8_t byte) {
    return from == nullptr ? nullptr : automata->step(from, byte, budget);
  };
  for (uint32_t at = 1; at < trie.size();) {
    const TokenTrie::Node& node = trie.nodes[at];
    const auto [own, other] = path[node.depth - 1u];
    const bool exits = own != nullptr && own->accepts, is_known = other != nullptr && other->accepts;
    if (exits && !is_known) added.emplace_back(node.byte, at);
    if (!exits && is_known) removed.emplace_back(node.byte, at);
    AutomatonState* to = step(own, node.byte);
    AutomatonState* other_to = step(other, node.byte);
    budget.spend(1);
    if (to == other_to) {
      at += node.size;
      continue;
    }
    path.resize(node.depth);
    path.emplace_back(to, other_to);
    for (const uint32_t id : trie.tokens_of(at)) {
      if (to != nullptr)
        words[id / 32] |= 1u << id % 32;
      else
        words[id / 32] &= ~(1u << id % 32);
    }
    at++;
  }
  std::vector<Exit> exits;
  if (known != nullptr) {
    std::sort(removed.begin(), removed.end());
    uint32_t at = 0;
    for (const auto& [byte, end] : known->exits) {
      for (; at < end; at++) {
        const Exit exit{byte, known->exit_nodes[at]};
        if (!std::binary_search(removed.begin(), removed.end(), exit)) exits.push_back(exit);
      }
    }
  }
  exits.insert(exits.end(), added.begin(), added.end());
  std::sort(exits.begin(), exits.end());
  made->exit_nodes.reserve(exits.size());
  for (const auto& [byte, node] : exits) {
    made->exit_nodes.push_back(node);
    const auto end = static_cast<uint32_t>(made->exit_nodes.size());
    if (!made->exits.empty() && made->exits.back().first == byte)
      made->exits.back().second = end;
    else
      made->exits.emplace_back(byte, end);
  }
  size_t count = 0;
  for (const uint32_t word : words) count += static_cast<size_t>(std::popcount(word));
  if (count > words.size()) {
    made->words = std::move(words);
    return made;
  }
  made->tokens.reserve(count);
  for (size_t i = 0; i < words.size(); i++) {
    for (uint32_t left = words[i]; left != 0; left &= left - 1) {
      made->tokens.push_back(static_cast<uint32_t>(32 * i) + static_cast<uint32_t>(std::countr_zero(left)));
    }
  }
  return made;
}

AutomatonState* Vocabulary::loop_behind(Automata& automata, AutomatonState* state, Budget& budget) {
  std::unordered_map<AutomatonState*, uint32_t> bytes;
  AutomatonState* most = nullptr;
  const Edges& edges = automata.edges(state, budget);
  for (Edges::Range& range : edges.all()) {
    AutomatonState* to = automata.target(edges, range, budget);
    bytes[to] += range.last - range.first + 1u;
    if (most == nullptr || bytes[to] > bytes[most]) most = to;
  }
  if (most == nullptr || most == state) return nullptr;
  const Edges& behind = automata.edges(most, budget);
  for (Edges::Range& range : behind.all()) {
    if (automata.target(behind, range, budget) == most) return most;
  }
  return nullptr;
}

std::shared_ptr<const TokenMask> Vocabulary::mask(std::vector<uint32_t> words) {
  const uint64_t hash = hash_of(words);
  const std::lock_guard lock(mutex_);
  for (auto [known, end] = known_masks_.equal_range(hash); known != end; ++known) {
    if (known->second->second->words != words) continue;
    masks_.splice(masks_.begin(), masks_, known->second);
    return masks_.front().second;
  }
  bool only_ends = true;
  for (size_t i = 0; i < words.size() && only_ends; i++) only_ends = (words[i] & ~end_words_[i]) == 0;
  auto made = std::make_shared<TokenMask>(TokenMask{std::move(words), masks_made_++, only_ends});
  masks_.emplace_front(hash, made);
  known_masks_.emplace(hash, masks_.begin());
  if (masks_.size() > kMasks) {
    for (auto [known, end] = known_masks_.equal_range(masks_.back().first); known != end; ++known) {
      if (known->second != std::prev(masks_.end())) continue;
      known_masks_.erase(known);
      break;
    }
    masks_.pop_back();
  }
  return made;
}

size_t Vocabulary::allocated_bytes() {
  const std::lock_guard lock(mutex_);
  size_t bytes = bytes_.size() + 4 * offsets_.size() + slice_bytes_ + masks_.size() * 4 * words();
  for (const TokenTrie& trie : tries_) bytes += trie.nodes.size() * sizeof(TokenTrie::Node) + 4 * trie.tokens.size();
  return automata_ == nullptr ? bytes : bytes + automata_->allocated_bytes();
}

}  // namespace rocmforge::constraints
