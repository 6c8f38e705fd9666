const DATE = String.raw`(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)`;
const TIME = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)`;
const IPV4 = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}`;
/** Not held to 63 characters: counting them in every label would make the grammar large. */
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?';
const GROUP = '[0-9A-Fa-f]{1,4}';
const PCT = '%[0-9A-Fa-f]{2}';
const PCHAR = String.raw`(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|${PCT})`;

const USER = String.raw`(?:[A-Za-z0-9._~!$&'()*+,;=:-]|${PCT})*`;
const HOST = String.raw`(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|${PCT})*)`;
const AUTHORITY = String.raw`//(?:${USER}@)?${HOST}(?::\d*)?(?:/${PCHAR}*)*`;
const ABSOLUTE = `/(?:${PCHAR}+(?:/${PCHAR}*)*)?`;
const ROOTLESS = `${PCHAR}+(?:/${PCHAR}*)*`;
const AFTER_PATH = String.raw`(?:\?(?:[/?]|${PCHAR})*)?(?:#(?:[/?]|${PCHAR})*)?`;
const URI = `[A-Za-z][A-Za-z0-9+.-]*:(?:${AUTHORITY}|${ABSOLUTE}|${ROOTLESS}|)${AFTER_PATH}`;
/** The first segment of a relative path has no colon. */
const NO_SCHEME = `(?:[A-Za-z0-9._~!$&'()*+,;=@-]|${PCT})+(?:/${PCHAR}*)*`;
const RELATIVE = `(?:${AUTHORITY}|${ABSOLUTE}|${NO_SCHEME}|)${AFTER_PATH}`;

/** The ways to write eight groups of which one run of zeros is left out. */
function ipv6(): string {
  const forms = [`(?:${GROUP}:){7}${GROUP}`];
  for (let before = 0; before <= 7; before++) {
    const left = before === 0 ? '' : `${GROUP}(?::${GROUP}){${before - 1}}`;
    const after = 7 - before;
    forms.push(`${left}::${after === 0 ? '' : `(?:${GROUP}(?::${GROUP}){0,${after - 1}})?`}`);
  }
  return forms.join('|');
}

const DURATION_TIME = String.raw`T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)`;
const DURATION_DATE = String.raw`(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)`;

/**
 * Formats that are enforced, as patterns of the whole string; RFC 3339, 4122, 5321, 2673, 4291, 3986, 6901. The standard takes
 * formats for annotations: enforcing them is stricter than it asks. Other formats are annotations.
 */
export const FORMATS: ReadonlyMap<string, string> = new Map([
  ['date-time', `${DATE}[Tt]${TIME}`],
  ['date', DATE],
  ['time', TIME],
  ['duration', String.raw`P(?:\d+W|${DURATION_DATE}(?:${DURATION_TIME})?|${DURATION_TIME})`],
  [
    'email',
    String.raw`[A-Za-z0-9!#$%&'*+/=?^_\`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_\`{|}~-]+)*@${LABEL}(?:\.${LABEL})*`,
  ],
  ['hostname', String.raw`${LABEL}(?:\.${LABEL})*`],
  ['ipv4', IPV4],
  ['ipv6', ipv6()],
  ['uuid', '[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}'],
  ['uri', URI],
  ['uri-reference', `${URI}|${RELATIVE}`],
  ['json-pointer', String.raw`(?:/(?:[^~/]|~[01])*)*`],
  ['relative-json-pointer', String.raw`(?:0|[1-9]\d*)(?:#|(?:/(?:[^~/]|~[01])*)*)`],
]);
