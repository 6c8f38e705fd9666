export function importComplaints(sources: ReadonlyMap<string, string>, knownCycles?: readonly string[]): string[];
