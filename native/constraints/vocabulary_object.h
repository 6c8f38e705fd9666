// What JavaScript sees of this folder: see MaskAddon in src/gateway/matching/mask-addon.ts.
#pragma once

#include <napi.h>

namespace rocmforge::constraints {

// The classes MaskVocabulary, MaskGrammar and GrammarMatcher.
void define_mask_classes(Napi::Env env, Napi::Object exports);

}  // namespace rocmforge::constraints
