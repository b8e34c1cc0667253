// The place in the page is the address after #: /jobs, /jobs/ID/tasks, /fleet, /trials/7, /history/MODEL.
import { signal } from '@preact/signals';

const parts = () => location.hash.replace(/^#\/?/, '').split('/').filter(Boolean).map(decodeURIComponent);
export const route = signal<string[]>(parts());
window.addEventListener('hashchange', () => {
  route.value = parts();
});

export function to(...place: (string | number)[]): string {
  return '#/' + place.map((part) => encodeURIComponent(part)).join('/');
}
