/** Options of a store as the query of its URL: the native part reads and judges them. */

import { show } from './encode';
import { AnarchonError } from './errors';

/** A URL with options added to its query. `undefined` and `null` count as not given. */
export function withOptions(what: string, url: string | undefined, options: object): string {
  if (typeof url !== 'string') {
    throw new AnarchonError('INVALID_OPTION', `${what}: url is ${show(url)}; allowed is a URL`);
  }
  const query = Object.entries(options)
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
    .join('&');
  if (query === '') return url;
  return `${url}${url.includes('?') ? '&' : '?'}${query}`;
}
