import { Dict, type Value } from '../../lib/jinja/values.js';

/** Efforts that gpt-oss was trained on; its template prints whatever it is given. */
const HARMONY_EFFORTS: ReadonlyMap<Value, string> = new Map([
  ['none', 'low'],
  ['minimal', 'low'],
  ['xhigh', 'high'],
  ['max', 'high'],
]);

/** The variables of a template with an effort that its model knows. @param source the template */
export function withKnownEffort(variables: Dict, source: string): Dict {
  const known = HARMONY_EFFORTS.get(variables.get('reasoning_effort') ?? '');
  if (known === undefined || !source.includes('<|channel|>')) return variables;
  return Dict.of([...variables.entries(), ['reasoning_effort', known]]);
}
