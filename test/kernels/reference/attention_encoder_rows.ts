export { attentionEncoder as attentionEncoderRows } from './attention_encoder.js';
