/**
 * Number of conversations that the browser keeps, once the page has opened its database: its list comes later than
 * its first paint. The transaction covers both stores, so that it follows every write which the page has begun.
 */
export const KEPT = `(async () => {
  const ours = async () => (await indexedDB.databases()).find(({ name }) => name.startsWith('rocmforge:'));
  while ((await ours()) === undefined) await new Promise((resolve) => setTimeout(resolve, 20));
  const { name } = await ours();
  const resultOf = (request) =>
    new Promise((resolve, reject) => {
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  const database = await resultOf(indexedDB.open(name));
  try {
    return await resultOf(database.transaction(['conversations', 'messages']).objectStore('conversations').count());
  } finally {
    database.close();
  }
})()`;
