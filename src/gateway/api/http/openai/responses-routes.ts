import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';

/** OpenAI's `GET /v1/responses/{id}`. @throws RocmForgeError `RESPONSE_NOT_FOUND` */
export async function getResponse(exchange: Exchange, { responses }: HttpContext, id: string): Promise<void> {
  exchange.jsonBytes(Buffer.from(responses.get(exchange.client.principal, id).json));
}

/** OpenAI's `DELETE /v1/responses/{id}`. @throws RocmForgeError `RESPONSE_NOT_FOUND` */
export async function deleteResponse(exchange: Exchange, { responses }: HttpContext, id: string): Promise<void> {
  responses.delete(exchange.client.principal, id);
  exchange.json({ id, object: 'response', deleted: true });
}
