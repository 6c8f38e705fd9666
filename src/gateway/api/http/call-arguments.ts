import { jsonText, MAX_JSON_DEPTH, parseJsonWithin } from '../../../lib/json/exact-json.js';
import { JsonText } from './json-slices.js';

/** Levels of a request around the arguments of a call that it returns, and a few to spare. */
const LEVELS_AROUND = 16;

/**
 * The arguments of a call as a JSON value, for APIs that have no text there. The text that the model wrote where that is not JSON, as
 * of a call that was cut, or so deep that a request could not return it.
 */
export function argumentsValue(argumentsJson: string): JsonText | string {
  try {
    return new JsonText(jsonText(parseJsonWithin(argumentsJson, MAX_JSON_DEPTH - LEVELS_AROUND)));
  } catch {
    return argumentsJson;
  }
}
