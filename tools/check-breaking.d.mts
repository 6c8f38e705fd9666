export function breakingComplaints(root: string): string[];
