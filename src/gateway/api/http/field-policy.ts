/** Names of unknown fields that one request reports, and the characters of each. */
const MOST_NAMES = 32;
const MOST_NAME_CHARACTERS = 64;

/**
 * Treatment of the fields of a request that its API does not know: they are refused, or ignored and reported. One for
 * each request.
 */
export class FieldPolicy {
  private readonly names = new Set<string>();
  /** See {@link Fields.standsFor}. */
  readonly fieldNames: Record<string, string> = {};

  /** @param isStrict true if unknown fields are refused */
  constructor(readonly isStrict: boolean) {}

  /** The ignored fields by their paths, each once and without indices: `messages[].type`. At most 32. */
  get ignored(): readonly string[] {
    return [...this.names];
  }

  /** Reports a field as ignored. @param path such as `messages[3].type` */
  ignore(path: string): void {
    if (this.names.size < MOST_NAMES) this.names.add(path.replace(/\[\d+\]/g, '[]').slice(0, MOST_NAME_CHARACTERS));
  }
}

/** The ignored fields as the value of a header: what a header cannot have is percent-encoded. */
export function ignoredFieldsHeader(names: readonly string[]): string {
  return names
    .map((name) =>
      name.replace(/[^\w.[\]-]/gu, (character) =>
        encodeURIComponent(/\p{Surrogate}/u.test(character) ? '\ufffd' : character),
      ),
    )
    .join(', ');
}

/** Names of ignored fields that are logged, each once: a client could make up any number. */
const MOST_LOGGED = 256;

/** Logs each ignored field once. */
export class IgnoredFieldLog {
  private readonly logged = new Set<string>();

  /** @param log is given the names that are new */
  constructor(private readonly log: (names: readonly string[]) => void) {}

  note(names: readonly string[]): void {
    const fresh = names.filter((name) => !this.logged.has(name)).slice(0, MOST_LOGGED - this.logged.size);
    if (fresh.length === 0) return;
    for (const name of fresh) this.logged.add(name);
    this.log(fresh);
  }
}
