export function lengthComplaints(sources: ReadonlyMap<string, string>, knownLong?: readonly string[]): string[];
