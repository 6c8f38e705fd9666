// One file because the JavaScript classes of vocabulary, grammar and matcher hold references to each other.
#include "vocabulary_object.h"

#include <time.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "matcher.h"

namespace rocmforge::constraints {
namespace {

using Clock = std::chrono::steady_clock;

// Of one job: about 40 ms, and what a text of 32,000 characters takes in automata of its own.
constexpr int64_t kMaskSteps = 3'000'000;
constexpr int64_t kJobBytes = 24 << 20;
// An answer that is opened again has many tokens to accept.
constexpr int64_t kTokenSteps = 20'000;
// A batch goes back when it has taken so long, with what is done.
constexpr auto kBatchTime = std::chrono::milliseconds(2);
// Masks behind draft tokens, and how long they may take together.
constexpr size_t kMostAhead = 7;
constexpr auto kAheadTime = std::chrono::milliseconds(2);
// Masks whose JavaScript objects are looked up, before those that are gone are forgotten.
constexpr size_t kRememberedMasks = 2048;
// Bytes of grammars that are prepared before freed memory is given back.
constexpr size_t kTrimBytes = 16 << 20;

// Of this thread on a processor so far: what it waits for one is not its answer's fault.
double processor_ms() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

template <typename T>
std::vector<T> numbers(const Napi::Value& value) {
  const auto array = value.As<Napi::TypedArrayOf<T>>();
  return {array.Data(), array.Data() + array.ElementLength()};
}

struct AheadToken {
  uint32_t token;
  std::shared_ptr<const TokenMask> mask;
  bool is_sure;
};

enum class Outcome { kWaiting, kReady, kBroken, kExceeded };

struct Job {
  std::shared_ptr<Matcher> matcher;
  std::vector<uint32_t> tokens;
  bool is_drafting;
  std::vector<uint32_t> drafts;

  Outcome outcome = Outcome::kWaiting;
  double ms = 0;
  std::string why;
  std::shared_ptr<const TokenMask> mask;
  std::vector<AheadToken> ahead;

  void run() {
    const std::lock_guard lock(matcher->grammar().mutex());
    const double started = processor_ms();
    Budget budget{kMaskSteps + kTokenSteps * static_cast<int64_t>(tokens.size()), kJobBytes};
    try {
      run(budget);
    } catch (const BudgetExceeded& exceeded) {
      outcome = Outcome::kExceeded;
      why = exceeded.what();
    } catch (const std::bad_alloc&) {
      outcome = Outcome::kExceeded;
      why = "takes more memory than there is";
    }
    matcher->grammar().count_automata(budget.automata_bytes);
    ms = processor_ms() - started;
  }

 private:
  void run(Budget& budget) {
    matcher->begin();
    outcome = Outcome::kReady;
    for (const uint32_t token : tokens) {
      if (matcher->accept(token, budget)) continue;
      outcome = Outcome::kBroken;
      return;
    }
    mask = matcher->mask(budget);
    if (is_drafting) look_ahead(budget);
  }

  // Masks behind draft tokens, and behind tokens that alone may come; the matcher stays where it is.
  void look_ahead(Budget& budget) {
    const auto until = Clock::now() + kAheadTime;
    const Vocabulary& vocabulary = matcher->grammar().vocabulary();
    size_t accepted = 0;
    try {
      const TokenMask* before = mask.get();
      bool follows_drafts = true;
      while (ahead.size() < kMostAhead && Clock::now() < until) {
        const int64_t only = only_token(before->words);
        const bool has_draft = follows_drafts && ahead.size() < drafts.size();
        const int64_t draft = has_draft ? drafts[ahead.size()] : -1;
        follows_drafts = draft >= 0 && draft < static_cast<int64_t>(vocabulary.size()) &&
                         (before->words[static_cast<size_t>(draft) / 32] >> (draft % 32) & 1) != 0;
        const int64_t next = follows_drafts ? draft : only;
        if (next < 0 || vocabulary.is_end(static_cast<uint32_t>(next))) break;
        if (!matcher->accept(static_cast<uint32_t>(next), budget)) break;
        accepted++;
        auto behind = matcher->mask(budget);
        // What a text that may only end now comes to is not for its masks to say.
        if (behind->only_ends) break;
        ahead.push_back({static_cast<uint32_t>(next), std::move(behind), next == only});
        before = ahead.back().mask.get();
      }
    } catch (const BudgetExceeded&) {
      // The mask itself is known; its own turn decides about those behind it.
    }
    matcher->roll_back(accepted);
  }

  static int64_t only_token(const std::vector<uint32_t>& words) {
    int64_t found = -1;
    for (size_t i = 0; i < words.size(); i++) {
      if (words[i] == 0) continue;
      if (found >= 0 || std::popcount(words[i]) != 1) return -1;
      found = static_cast<int64_t>(32 * i) + std::countr_zero(words[i]);
    }
    return found;
  }
};

class MatcherObject : public Napi::ObjectWrap<MatcherObject> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "GrammarMatcher",
                       {InstanceMethod<&MatcherObject::fork>("fork"), InstanceMethod<&MatcherObject::close>("close")});
  }
  explicit MatcherObject(const Napi::CallbackInfo& info);

  std::shared_ptr<Matcher> matcher(Napi::Env env) const {
    if (matcher_ == nullptr) throw Napi::Error::New(env, "the matcher is closed");
    return matcher_;
  }

 private:
  Napi::Value fork(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo&) { matcher_.reset(); }

  std::shared_ptr<Matcher> matcher_;
};

class GrammarObject : public Napi::ObjectWrap<GrammarObject> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(
        env, "MaskGrammar",
        {InstanceAccessor<&GrammarObject::allocated_bytes>("allocatedBytes"),
         InstanceAccessor<&GrammarObject::epoch>("epoch"), InstanceMethod<&GrammarObject::close>("close")});
  }
  // (External of a grammar).
  explicit GrammarObject(const Napi::CallbackInfo& info)
      : Napi::ObjectWrap<GrammarObject>(info),
        grammar_(*info[0].As<Napi::External<std::shared_ptr<Grammar>>>().Data()) {}

  std::shared_ptr<Grammar> grammar(Napi::Env env) const {
    if (grammar_ == nullptr) throw Napi::Error::New(env, "the grammar is closed");
    return grammar_;
  }

 private:
  Napi::Value allocated_bytes(const Napi::CallbackInfo& info) {
    return Napi::Number::New(info.Env(), static_cast<double>(grammar(info.Env())->allocated_bytes()));
  }
  Napi::Value epoch(const Napi::CallbackInfo& info) {
    const uint64_t epoch = grammar(info.Env())->epoch();
    return Napi::Number::New(info.Env(), epoch == Grammar::kNoEpoch ? INFINITY : static_cast<double>(epoch));
  }
  // Garbage is collected by what JavaScript sees of it, which is little.
  void close(const Napi::CallbackInfo&) { grammar_.reset(); }

  std::shared_ptr<Grammar> grammar_;
};

// (grammar) or, of fork, (External of a matcher).
MatcherObject::MatcherObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<MatcherObject>(info) {
  if (info[0].IsExternal()) {
    matcher_ = *info[0].As<Napi::External<std::shared_ptr<Matcher>>>().Data();
  } else {
    matcher_ = std::make_shared<Matcher>(GrammarObject::Unwrap(info[0].As<Napi::Object>())->grammar(info.Env()));
  }
}

Napi::Value MatcherObject::fork(const Napi::CallbackInfo& info) {
  auto copy = std::make_shared<Matcher>(*matcher(info.Env()));
  const auto external = Napi::External<std::shared_ptr<Matcher>>::New(info.Env(), &copy);
  return Value().Get("constructor").As<Napi::Function>().New({external});
}

class VocabularyObject;

// Gives memory of closed grammars back to the system, now and then: malloc keeps it in the arenas of the threads that
// prepared them.
void trim_memory(size_t prepared_bytes) {
#ifdef __GLIBC__
  static std::atomic<size_t> prepared = 0;
  if (prepared.fetch_add(prepared_bytes) + prepared_bytes < kTrimBytes) return;
  prepared = 0;
  malloc_trim(0);
#endif
}

// Reads and prepares a grammar.
class PrepareWorker : public Napi::AsyncWorker {
 public:
  PrepareWorker(Napi::Env env, std::shared_ptr<Vocabulary> vocabulary, std::vector<uint8_t> buffer, Napi::Function made)
      : Napi::AsyncWorker(env),
        deferred_(Napi::Promise::Deferred::New(env)),
        vocabulary_(std::move(vocabulary)),
        buffer_(std::move(buffer)),
        class_(Napi::Persistent(made)) {}
  Napi::Promise promise() const { return deferred_.Promise(); }

  void Execute() override {
    grammar_ = std::make_shared<Grammar>(vocabulary_, std::move(buffer_));
    trim_memory(grammar_->allocated_bytes());
  }
  void OnOK() override {
    const auto external = Napi::External<std::shared_ptr<Grammar>>::New(Env(), &grammar_);
    deferred_.Resolve(class_.New({external}));
  }
  void OnError(const Napi::Error& error) override { deferred_.Reject(error.Value()); }

 private:
  Napi::Promise::Deferred deferred_;
  std::shared_ptr<Vocabulary> vocabulary_;
  std::vector<uint8_t> buffer_;
  Napi::FunctionReference class_;
  std::shared_ptr<Grammar> grammar_;
};

// (bytes, offsets, endIds)
class VocabularyObject : public Napi::ObjectWrap<VocabularyObject> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(
        env, "MaskVocabulary",
        {InstanceAccessor<&VocabularyObject::allocated_bytes>("allocatedBytes"),
         InstanceMethod<&VocabularyObject::prepare>("prepare"), InstanceMethod<&VocabularyObject::run>("run")});
  }
  explicit VocabularyObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<VocabularyObject>(info) {
    try {
      vocabulary_ = std::make_shared<Vocabulary>(numbers<uint8_t>(info[0]), numbers<uint32_t>(info[1]),
                                                 numbers<uint32_t>(info[2]));
    } catch (const std::invalid_argument& error) {
      throw Napi::RangeError::New(info.Env(), error.what());
    }
  }

  // The object of a mask, the same as long as JavaScript holds it.
  Napi::Value mask_object(Napi::Env env, const TokenMask& mask) {
    auto& known = masks_[mask.key];
    if (!known.IsEmpty()) {
      const Napi::Value value = known.Value();
      if (!value.IsEmpty() && value.IsObject()) return value;
    }
    const size_t bytes = 4 * mask.words.size();
    auto bits = Napi::Uint8Array::New(env, bytes);
    std::memcpy(bits.Data(), mask.words.data(), bytes);
    auto made = Napi::Object::New(env);
    made.Set("bits", bits);
    made.Set("onlyEnds", mask.only_ends);
    known = Napi::Weak(made);
    if (masks_.size() > kRememberedMasks) {
      std::erase_if(masks_, [](auto& each) { return each.second.Value().IsEmpty(); });
    }
    return made;
  }

 private:
  Napi::Value allocated_bytes(const Napi::CallbackInfo& info) {
    return Napi::Number::New(info.Env(), static_cast<double>(vocabulary_->allocated_bytes()));
  }
  // (buffer, MaskGrammar)
  Napi::Value prepare(const Napi::CallbackInfo& info) {
    auto* worker = new PrepareWorker(info.Env(), vocabulary_, numbers<uint8_t>(info[0]), info[1].As<Napi::Function>());
    const Napi::Promise promise = worker->promise();
    worker->Queue();
    return promise;
  }
  Napi::Value run(const Napi::CallbackInfo& info);

  std::shared_ptr<Vocabulary> vocabulary_;
  std::unordered_map<uint32_t, Napi::ObjectReference> masks_;
};

// Jobs one after the other, for a while.
class BatchWorker : public Napi::AsyncWorker {
 public:
  BatchWorker(Napi::Object owner, std::vector<Job> jobs)
      : Napi::AsyncWorker(owner.Env()),
        deferred_(Napi::Promise::Deferred::New(owner.Env())),
        owner_(Napi::Persistent(owner)),
        jobs_(std::move(jobs)) {}
  Napi::Promise promise() const { return deferred_.Promise(); }

  void Execute() override {
    const auto until = Clock::now() + kBatchTime;
    for (Job& job : jobs_) {
      job.run();
      if (Clock::now() > until) return;
    }
  }

  void OnOK() override {
    const Napi::Env env = Env();
    VocabularyObject* vocabulary = VocabularyObject::Unwrap(owner_.Value());
    auto results = Napi::Array::New(env, jobs_.size());
    for (uint32_t i = 0; i < jobs_.size(); i++) {
      const Job& job = jobs_[i];
      auto result = Napi::Object::New(env);
      result.Set("outcome", name_of(job.outcome));
      result.Set("ms", job.ms);
      if (job.outcome == Outcome::kExceeded) result.Set("why", job.why);
      if (job.outcome == Outcome::kReady) {
        result.Set("mask", vocabulary->mask_object(env, *job.mask));
        auto ahead = Napi::Array::New(env, job.ahead.size());
        for (uint32_t j = 0; j < job.ahead.size(); j++) {
          auto token = Napi::Object::New(env);
          token.Set("tokenId", job.ahead[j].token);
          token.Set("mask", vocabulary->mask_object(env, *job.ahead[j].mask));
          token.Set("isSure", job.ahead[j].is_sure);
          ahead.Set(j, token);
        }
        result.Set("ahead", ahead);
      }
      results.Set(i, result);
    }
    deferred_.Resolve(results);
  }
  void OnError(const Napi::Error& error) override { deferred_.Reject(error.Value()); }

 private:
  static const char* name_of(Outcome outcome) {
    switch (outcome) {
      case Outcome::kWaiting:
        return "waiting";
      case Outcome::kReady:
        return "ready";
      case Outcome::kBroken:
        return "broken";
      case Outcome::kExceeded:
        return "exceeded";
    }
    return "";
  }

  Napi::Promise::Deferred deferred_;
  Napi::ObjectReference owner_;
  std::vector<Job> jobs_;
};

// (jobs) → results, in the same order
Napi::Value VocabularyObject::run(const Napi::CallbackInfo& info) {
  const auto array = info[0].As<Napi::Array>();
  std::vector<Job> jobs(array.Length());
  for (uint32_t i = 0; i < array.Length(); i++) {
    const auto given = array.Get(i).As<Napi::Object>();
    Job& job = jobs[i];
    job.matcher = MatcherObject::Unwrap(given.Get("matcher").As<Napi::Object>())->matcher(info.Env());
    job.tokens = numbers<uint32_t>(given.Get("tokenIds"));
    const Napi::Value drafts = given.Get("draftTokens");
    job.is_drafting = !drafts.IsUndefined();
    if (job.is_drafting) job.drafts = numbers<uint32_t>(drafts);
  }
  auto* worker = new BatchWorker(Value(), std::move(jobs));
  const Napi::Promise promise = worker->promise();
  worker->Queue();
  return promise;
}

}  // namespace

void define_mask_classes(Napi::Env env, Napi::Object exports) {
  exports.Set("MaskVocabulary", VocabularyObject::define(env));
  exports.Set("MaskGrammar", GrammarObject::define(env));
  exports.Set("GrammarMatcher", MatcherObject::define(env));
}

}  // namespace rocmforge::constraints
