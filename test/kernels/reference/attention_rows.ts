export { attentionPaged as attentionRows } from './attention_paged.js';
