import type { ArchitectureName } from '../../lib/gguf/architectures.js';
import type { GgufModel } from '../../lib/gguf/reader.js';
import type { ServableModel } from '../../lib/gguf/servable-model.js';
import { TensorCatalog } from '../model/tensors.js';
import type { ModelGraph } from '../model/values.js';
import { apertus } from './apertus.js';
import { arcee } from './arcee.js';
import { bailingmoe } from './bailingmoe.js';
import { bailingmoe2 } from './bailingmoe2.js';
import { bert, jinaBertV2, nomicBert } from './bert.js';
import { chatglm } from './chatglm.js';
import { classificationHead } from './classification-head.js';
import { cohere2 } from './cohere2.js';
import { commandR } from './command-r.js';
import { deepseek } from './deepseek.js';
import { deepseek2 } from './deepseek2.js';
import { dots1 } from './dots1.js';
import { ernie45moe } from './ernie4-5-moe.js';
import { exaone4 } from './exaone4.js';
import { falcon } from './falcon.js';
import { falconH1 } from './falcon-h1.js';
import type { Family } from './family.js';
import { gemma } from './gemma.js';
import { gemmaEmbedding } from './gemma-embedding.js';
import { gemma2 } from './gemma2.js';
import { gemma3 } from './gemma3.js';
import { gemma3n } from './gemma3n.js';
import { gemma4 } from './gemma4.js';
import { glm4 } from './glm4.js';
import { glm4moe } from './glm4moe.js';
import { gptOss } from './gpt-oss.js';
import { gptneox } from './gptneox.js';
import { granite } from './granite.js';
import { granitehybrid } from './granitehybrid.js';
import { granitemoe } from './granitemoe.js';
import { hunyuanDense } from './hunyuan-dense.js';
import { hunyuanMoe } from './hunyuan-moe.js';
import { lfm2, lfm2moe } from './lfm2.js';
import { llama } from './llama.js';
import { maincoder } from './maincoder.js';
import { mellum } from './mellum.js';
import { minimaxM2 } from './minimax-m2.js';
import { mistral3 } from './mistral3.js';
import { modernBert } from './modern-bert.js';
import { nemotronH, nemotronHMoe } from './nemotron-h.js';
import { olmo2 } from './olmo2.js';
import { olmoe } from './olmoe.js';
import { phi3 } from './phi3.js';
import { phimoe } from './phimoe.js';
import { qwen2 } from './qwen2.js';
import { qwen2moe } from './qwen2moe.js';
import { qwen3 } from './qwen3.js';
import { qwen3moe } from './qwen3moe.js';
import { qwen3next, qwen35, qwen35moe } from './qwen35.js';
import { seedOss } from './seed-oss.js';
import { smollm3 } from './smollm3.js';
import { starcoder2 } from './starcoder2.js';

/** Every family, by the name that its files have; of aliases the family that computes them. */
export const families: Readonly<Record<ArchitectureName, Family>> = {
  apertus,
  arcee,
  bailingmoe,
  bailingmoe2,
  bert,
  chatglm,
  cohere2,
  'command-r': commandR,
  deepseek,
  deepseek2,
  dots1,
  'ernie4_5-moe': ernie45moe,
  exaone4,
  falcon,
  'falcon-h1': falconH1,
  gemma,
  gemma2,
  gemma3,
  gemma3n,
  gemma4,
  'gemma-embedding': gemmaEmbedding,
  glm4,
  glm4moe,
  gptneox,
  'gpt-oss': gptOss,
  granite,
  granitehybrid,
  granitemoe,
  'hunyuan-dense': hunyuanDense,
  'hunyuan-moe': hunyuanMoe,
  'jina-bert-v2': jinaBertV2,
  lfm2,
  lfm2moe,
  llama,
  maincoder,
  mellum,
  'minimax-m2': minimaxM2,
  mistral3,
  'modern-bert': modernBert,
  nemotron_h: nemotronH,
  nemotron_h_moe: nemotronHMoe,
  'nomic-bert': nomicBert,
  olmo2,
  olmoe,
  phi3,
  phimoe,
  qwen2,
  qwen2moe,
  qwen3,
  qwen3moe,
  qwen3next,
  qwen35,
  qwen35moe,
  seed_oss: seedOss,
  smollm3,
  starcoder2,
};

/**
 * Graph of a file's model, from its header.
 *
 * @param predicts with its block that predicts further tokens, if there is one
 * @throws RocmForgeError `GGUF_INVALID` for a tensor that is missing or shaped otherwise; `MODEL_UNSUPPORTED` for one whose type has no kernels, or that nothing here computes with
 */
export function readGraph(file: GgufModel, model: ServableModel, predicts = false): ModelGraph {
  const tensors = new TensorCatalog(file);
  const graph = families[model.family].build(model, tensors, predicts);
  const head = classificationHead(file, model, tensors);
  tensors.refuseUnread();
  return head === undefined ? graph : { ...graph, head };
}
