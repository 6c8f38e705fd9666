// The tiles are the kernel's own affair: what each row attends to is what attention_paged says.
export { attentionPaged as flashAttentionCausal } from './attention_paged.js';
