import path from 'node:path';
import { packageVersion } from '../../../shared/package.js';
import type { ServedModel } from '../../request/served-model.js';
import type { HttpFacts } from './context.js';

/** Facts about a model that the HTTP server reports. */
export function httpFacts(
  { name, file, contextLength, chatTemplate, tokenizer, facts }: ServedModel,
  tags: readonly string[],
): HttpFacts {
  const textOf = (id: number | undefined): string => (id === undefined ? '' : tokenizer.tokenText(id));
  return {
    model: name,
    contextLength,
    modelFile: path.basename(file.path),
    chatTemplate,
    bosToken: textOf(tokenizer.bosId),
    eosToken: textOf(tokenizer.eosId),
    version: packageVersion,
    aliases: facts.modelAliases ?? [],
    tags,
    seed: facts.defaultSeed,
    fingerprint: `build-${packageVersion}`,
    endIds: tokenizer.eogIds,
    tokenText: (id) => Buffer.from(tokenizer.tokenBytes(id)).toString(),
    tokenBytes: (id) => tokenizer.tokenBytes(id),
  };
}
