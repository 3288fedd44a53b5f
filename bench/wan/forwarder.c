/* A wide-area network in one process: hosts in network namespaces, each on a TUN device of ours, and between them
 * delay lines with a rate, a queue and random loss.
 *
 *     forwarder NAMESPACE... < commands > replies
 *
 * Host number i (from 1) has the address 10.x.y.i; its packets go to the host that the last octet of their destination
 * names. Each host has one link out: packets leave it at the link's rate, one after the other, wait in its queue when
 * they come faster (drop tail), and arrive after the one-way delay.
 *
 * A packet may stand for up to 64 KB of TCP segments (TSO). Rate, queue and loss count the segments as they would be
 * on a wire: what the queue cannot take is cut off at a segment's border, and a lost segment splits the packet in two.
 *
 * Commands, one a line:   set DELAY_US RATE_BITS_PER_S QUEUE_OCTETS LOSS SEED
 *                         count
 * are answered by a line: SEGMENTS OCTETS DROPPED LOST PACKETS LATE
 * since the last `set`: segments and octets sent, segments dropped by queues, and lost at random; packets handed over,
 * and those of them that were more than LATE_NS late, for this machine was busy.
 * The end of the input ends the process: it does not outlive whoever started it, however that one ends. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MAX_HOSTS 8
#define LARGEST (sizeof(struct virtio_net_hdr) + 65536 + 64)
#define RING_OCTETS (96ull << 20) /* more than 100 ms and a queue at 1 Gbit/s; only what was in use is memory */
#define BATCH 32                   /* packets of one host before the others, and the clock, get their turn */
#define LATE_NS 1000000
#define EARLY_NS 20000             /* what is due this soon is delivered now: waking up again costs as much */

typedef int64_t ns_t;

/* One packet under way. Records lie one after the other; `size` is 0 where the ring begins anew. */
struct record {
    ns_t due;
    uint32_t size, to;
    unsigned char data[];
};

struct host {
    int tun;
    ns_t free_at; /* when the link out has sent all that is queued */
    unsigned char *ring;
    uint64_t head, tail; /* octets ever taken out and put in, each modulo RING_OCTETS a place in the ring */
};

static struct host hosts[MAX_HOSTS + 1];
static int host_count;
static struct {
    ns_t delay;
    double ns_per_octet, loss;
    int64_t queue;
} line;
static struct {
    uint64_t segments, octets, dropped, lost, packets, late;
} counted;
static uint64_t random_state;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static ns_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static double random_unit(void) { /* xorshift64*, Vigna 2016 */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (double)((random_state * 2685821657736338717ull) >> 11) / 9007199254740992.0;
}

/* ---- packets and their segments ---- */

struct packet {
    struct virtio_net_hdr *virtual;
    struct iphdr *ip;
    struct tcphdr *tcp; /* of TCP super-packets only */
    unsigned headers, payload, per_segment, segments;
};

static int parse(unsigned char *data, ssize_t size, struct packet *p) {
    ssize_t length = size - (ssize_t)sizeof *p->virtual;
    p->virtual = (void *)data;
    p->ip = (void *)(data + sizeof *p->virtual);
    if (length < (ssize_t)sizeof *p->ip || p->ip->version != 4 || ntohs(p->ip->tot_len) != length) return 0;
    p->tcp = NULL;
    p->headers = 0;
    p->payload = p->per_segment = length;
    p->segments = 1;
    if ((p->virtual->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) == VIRTIO_NET_HDR_GSO_TCPV4) {
        p->tcp = (void *)((unsigned char *)p->ip + p->ip->ihl * 4);
        p->headers = p->ip->ihl * 4 + p->tcp->doff * 4;
        p->payload = length - p->headers;
        p->per_segment = p->virtual->gso_size;
        p->segments = (p->payload + p->per_segment - 1) / p->per_segment;
    }
    return 1;
}

static unsigned payload_before(const struct packet *p, unsigned segment) {
    unsigned octets = segment * p->per_segment;
    return octets < p->payload ? octets : p->payload;
}

/* On the wire every segment has headers of its own. */
static int64_t wire_octets(const struct packet *p, unsigned first, unsigned end) {
    return (int64_t)(end - first) * p->headers + payload_before(p, end) - payload_before(p, first);
}

static uint32_t sum16(const void *data, unsigned octets) {
    const uint16_t *words = data;
    uint32_t sum = 0;
    for (unsigned i = 0; i < octets / 2; i++) sum += words[i];
    return sum;
}

static uint16_t fold(uint32_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* Headers of segments first..end-1 as a packet of their own, as tcp_gso_segment of the kernel would have made them. */
static void correct_headers(const struct packet *p, unsigned char *data, unsigned first, unsigned end) {
    struct virtio_net_hdr *virtual = (void *)data;
    struct iphdr *ip = (void *)(data + sizeof *virtual);
    struct tcphdr *tcp = (void *)((unsigned char *)ip + ip->ihl * 4);
    unsigned payload = payload_before(p, end) - payload_before(p, first);
    if (payload <= p->per_segment) virtual->gso_type = VIRTIO_NET_HDR_GSO_NONE, virtual->gso_size = 0;
    ip->tot_len = htons(p->headers + payload);
    ip->id = htons(ntohs(ip->id) + first);
    ip->check = 0;
    ip->check = ~fold(sum16(ip, ip->ihl * 4));
    tcp->seq = htonl(ntohl(tcp->seq) + payload_before(p, first));
    if (end < p->segments) tcp->fin = tcp->psh = 0;
    if (first > 0) tcp->res2 &= ~2; /* CWR: on the first one only */
    /* The rest of the sum is left to whoever needs it (VIRTIO_NET_HDR_F_NEEDS_CSUM). */
    tcp->check = fold(sum16(&ip->saddr, 8) + htons(IPPROTO_TCP) + htons(p->headers - ip->ihl * 4 + payload));
}

/* ---- the delay lines ---- */

static struct record *room(struct host *from, unsigned size) {
    uint64_t need = (sizeof(struct record) + size + 15) & ~15ull;
    uint64_t left = RING_OCTETS - from->tail % RING_OCTETS;
    uint64_t skipped = left < need + sizeof(struct record) ? left : 0;
    if (from->tail + skipped + need - from->head > RING_OCTETS) return NULL;
    if (skipped) {
        ((struct record *)(from->ring + from->tail % RING_OCTETS))->size = 0;
        from->tail += skipped;
    }
    struct record *record = (void *)(from->ring + from->tail % RING_OCTETS);
    from->tail += need;
    return record;
}

static struct record *oldest(struct host *from) {
    while (from->head != from->tail) {
        struct record *record = (void *)(from->ring + from->head % RING_OCTETS);
        if (record->size) return record;
        from->head += RING_OCTETS - from->head % RING_OCTETS;
    }
    from->head = from->tail = 0; /* begin anew: the same few pages stay in the processor's cache */
    return NULL;
}

static void send_segments(struct host *from, const struct packet *p, unsigned first, unsigned end) {
    if (first == end) return;
    unsigned skip = payload_before(p, first), payload = payload_before(p, end) - skip;
    unsigned before = sizeof *p->virtual + p->headers;
    struct record *record = room(from, before + payload);
    if (!record) {
        counted.dropped += end - first;
        return;
    }
    record->due = from->free_at + line.delay;
    record->size = before + payload;
    record->to = ntohl(p->ip->daddr) & 255;
    memcpy(record->data, p->virtual, before);
    memcpy(record->data + before, (unsigned char *)p->ip + p->headers + skip, payload);
    if (end - first < p->segments) correct_headers(p, record->data, first, end);
    counted.segments += end - first;
    counted.octets += wire_octets(p, first, end);
}

/* How many segments of this packet the queue has room for. */
static unsigned accepted(const struct host *from, const struct packet *p, ns_t at) {
    int64_t space = line.queue - (int64_t)((from->free_at - at) / line.ns_per_octet);
    if (wire_octets(p, 0, p->segments) <= space) return p->segments;
    return space <= 0 || !p->tcp ? 0 : space / (p->headers + p->per_segment);
}

static void forward(struct host *from, const struct packet *p) {
    ns_t at = now();
    if (from->free_at < at) from->free_at = at;
    unsigned first = 0, end = accepted(from, p, at);
    counted.dropped += p->segments - end;
    for (unsigned segment = 0; segment < end; segment++) {
        from->free_at += wire_octets(p, segment, segment + 1) * line.ns_per_octet;
        if (line.loss > 0 && random_unit() < line.loss) { /* lost after the link, which was busy with it */
            counted.lost++;
            send_segments(from, p, first, segment);
            first = segment + 1;
        }
    }
    send_segments(from, p, first, end);
}

static void read_packets(struct host *from) {
    static unsigned char data[LARGEST];
    struct packet packet;
    for (int i = 0; i < BATCH; i++) {
        ssize_t size = read(from->tun, data, sizeof data);
        if (size <= 0) return;
        if (parse(data, size, &packet)) forward(from, &packet);
    }
}

/* Hand over what is due; when the next packet will be, or 0 for never. */
static ns_t deliver(struct host *from) {
    struct record *record;
    while ((record = oldest(from))) {
        ns_t late = now() - record->due;
        if (late < -EARLY_NS) return record->due;
        counted.packets++;
        counted.late += late > LATE_NS;
        if (record->to >= 1 && (int)record->to <= host_count)
            if (write(hosts[record->to].tun, record->data, record->size) < 0 && errno == EBADF) fail("write");
        from->head += (sizeof *record + record->size + 15) & ~15ull;
    }
    return 0;
}

/* ---- hosts and commands ---- */

static void enter(const char *namespace) {
    char path[128];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET)) fail(path);
    close(fd);
}

static void open_host(struct host *host, const char *namespace) {
    struct ifreq request = {.ifr_name = "wan0", .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
    enter(namespace);
    host->tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (host->tun < 0) fail("/dev/net/tun");
    if (ioctl(host->tun, TUNSETIFF, &request)) fail("TUNSETIFF");
    if (ioctl(host->tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)) fail("TUNSETOFFLOAD");
    host->ring =
        mmap(NULL, RING_OCTETS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host->ring == MAP_FAILED) fail("mmap");
}

static void obey(const char *text) {
    double delay_us, rate, loss;
    long long queue;
    unsigned long long seed;
    if (sscanf(text, "set %lf %lf %lld %lf %llu", &delay_us, &rate, &queue, &loss, &seed) == 5) {
        line.delay = delay_us * 1000;
        line.ns_per_octet = 8e9 / rate;
        line.queue = queue;
        line.loss = loss;
        random_state = seed * 2 + 1; /* never 0 */
        memset(&counted, 0, sizeof counted);
    }
    printf("%ju %ju %ju %ju %ju %ju\n", (uintmax_t)counted.segments, (uintmax_t)counted.octets,
           (uintmax_t)counted.dropped, (uintmax_t)counted.lost, (uintmax_t)counted.packets, (uintmax_t)counted.late);
    fflush(stdout);
}

static void read_commands(void) {
    static char text[4096];
    static size_t have;
    char *end;
    ssize_t got = read(0, text + have, sizeof text - 1 - have);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) exit(0);
    if (got > 0) have += got;
    text[have] = 0;
    while ((end = strchr(text, '\n'))) {
        *end = 0;
        obey(text);
        have -= end + 1 - text;
        memmove(text, end + 1, have + 1);
    }
}

static void watch(int epoll, int fd, uint32_t number) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

static void run(int epoll, int timer) {
    struct epoll_event events[MAX_HOSTS + 2];
    for (;;) {
        int count = epoll_wait(epoll, events, MAX_HOSTS + 2, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u32 == 0) read_commands();
            else if ((int)events[i].data.u32 <= host_count) read_packets(&hosts[events[i].data.u32]);
        }
        ns_t next = 0;
        for (int i = 1; i <= host_count; i++) {
            ns_t due = deliver(&hosts[i]);
            if (due && (!next || due < next)) next = due;
        }
        /* All zeros disarm it; setting it also takes back that it was readable. */
        struct itimerspec at = {.it_value = {next / 1000000000, next % 1000000000}};
        if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL)) fail("timerfd_settime");
    }
}

/* A network does not slow down because a host is busy: with an ordinary priority, one packet in fourteen was late. */
static void hurry(void) {
    struct sched_param first = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_RR, &first)) setpriority(PRIO_PROCESS, 0, -20);
}

int main(int argc, char **argv) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (argc < 2 || argc > MAX_HOSTS + 1) return fprintf(stderr, "usage: forwarder NAMESPACE...\n"), 2;
    signal(SIGINT, SIG_IGN); /* Ctrl-C is for who started us; our input ends with it */
    hurry();
    for (host_count = 0; host_count < argc - 1; host_count++) {
        open_host(&hosts[host_count + 1], argv[host_count + 1]);
        watch(epoll, hosts[host_count + 1].tun, host_count + 1);
    }
    obey("set 0 1e9 1000000 0 0"); /* its answer says that we are ready */
    watch(epoll, 0, 0);
    watch(epoll, timer, MAX_HOSTS + 1);
    run(epoll, timer);
}
