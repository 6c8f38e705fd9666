import type { IncomingMessage } from 'node:http';
import { notLoaded } from '../../../replica/model-loading.js';
import type { OfferedModel } from '../../models.js';
import type { Exchange } from '../exchange.js';

/** A parameter of a request's query; null where it has none of the name. */
export function queried({ url = '' }: Pick<IncomingMessage, 'url'>, name: string): string | null {
  const [, query = ''] = /\?(.*)$/s.exec(url) ?? [];
  return new URLSearchParams(query).get(name);
}

/** False if the request's query says that it does not load an unloaded model, as that of llama.cpp's router may: `autoload=false` or `0`. */
export function loadsModel({ request }: Pick<Exchange, 'request'>): boolean {
  return !['false', '0'].includes(queried(request, 'autoload') ?? '');
}

/** @throws RocmForgeError `MODEL_NOT_LOADED` for a request that does not load an unloaded model */
export function checkAutoload(exchange: Pick<Exchange, 'request'>, model: Pick<OfferedModel, 'isUnloaded'>): void {
  if (model.isUnloaded() && !loadsModel(exchange)) throw notLoaded();
}
