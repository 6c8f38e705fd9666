export function importComplaints(sources: ReadonlyMap<string, string>): string[];
