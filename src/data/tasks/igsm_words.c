/* The vocabularies: concatenated lists of sentence words, numbers, letters and names.  The index of
 * a word is its position.  In text every word is preceded by one space, except punctuation. */
#include "data/tasks/igsm_words.h"

#include <stdio.h>
#include <string.h>

/* ---- lists ----------------------------------------------------------------------------------- */

static const char *const words[W_SENTENCE_WORDS] = {
    [W_END] = "<end>",       [W_LINE] = "\n",     [W_ANSWER] = "answer",   [W_POINT] = ".",
    [W_COMMA] = ",",         [W_SEMICOLON] = ";", [W_QUESTION] = "?",      [W_EQUAL] = "=",
    [W_PLUS] = "+",          [W_MINUS] = "-",     [W_TIMES_SIGN] = "*",    [W_OPEN] = "(",
    [W_CLOSE] = ")",         [W_THE] = "the",     [W_TALLY] = "tally",     [W_OF] = "of",
    [W_WITHIN] = "within",   [W_EVERY] = "every", [W_EQUALS] = "equals",   [W_ADDED] = "added",
    [W_TO] = "to",           [W_TAKEN] = "taken", [W_FROM] = "from",       [W_TIMES] = "times",
    [W_TOTAL] = "total",     [W_GAP] = "gap",     [W_BETWEEN] = "between", [W_AND] = "and",
    [W_PRODUCT] = "product", [W_WHAT] = "what",   [W_HAS] = "has",         [W_LET] = "let",
    [W_BE] = "be",           [W_THEN] = "then",
};

static const char *const paper_categories[KVSI_IGSM_PLACES] = {"harbour", "orchard", "workshop",
                                                               "kitchen"};
static const char *const paper_items[KVSI_IGSM_PLACES * KVSI_IGSM_THINGS] = {
    "boats",   "ropes",   "anchors", "nets",   "buoys",   "crates",   "sails",  "oars",
    "lamps",   "flags",   "apples",  "pears",  "plums",   "cherries", "figs",   "quinces",
    "ladders", "hampers", "hives",   "rakes",  "hammers", "saws",     "nails",  "screws",
    "planks",  "chisels", "clamps",  "drills", "files",   "wrenches", "spoons", "forks",
    "knives",  "plates",  "bowls",   "cups",   "pans",    "jars",     "trays",  "kettles",
};

/* Nested, from left to right. */
static const char *const official_categories[KVSI_IGSM_CHAINS * KVSI_IGSM_CATEGORIES] = {
    "districts", "buildings", "rooms", "cabinets", "seas",    "islands", "ports",   "ships",
    "regions",   "forests",   "trees", "birds",    "markets", "stalls",  "baskets", "fruits",
};
static const char *const official_nouns[KVSI_IGSM_CHAINS * KVSI_IGSM_CATEGORIES * KVSI_IGSM_LISTS] =
    {
        "quarter", "suburb",  "borough",  "precinct", "ward",     /**/
        "museum",  "theatre", "hospital", "library",  "factory",  /**/
        "hall",    "office",  "studio",   "attic",    "cellar",   /**/
        "chest",   "locker",  "drawer",   "wardrobe", "dresser",  /**/
        "gulf",    "bay",     "strait",   "lagoon",   "fjord",    /**/
        "atoll",   "isle",    "reef",     "key",      "cape",     /**/
        "marina",  "dock",    "wharf",    "pier",     "jetty",    /**/
        "ferry",   "trawler", "schooner", "barge",    "yacht",    /**/
        "valley",  "plateau", "prairie",  "canyon",   "highland", /**/
        "grove",   "thicket", "woodland", "copse",    "jungle",   /**/
        "oak",     "maple",   "cedar",    "willow",   "birch",    /**/
        "finch",   "robin",   "heron",    "falcon",   "sparrow",  /**/
        "bazaar",  "fair",    "arcade",   "grocery",  "mall",     /**/
        "booth",   "counter", "kiosk",    "cart",     "stand",    /**/
        "hamper",  "crate",   "sack",     "punnet",   "tray",     /**/
        "apple",   "pear",    "plum",     "melon",    "grape",    /**/
};
/* A name is a quality and a noun; the list depends on the category's position in its chain. */
static const char *const official_qualities[KVSI_IGSM_CATEGORIES * KVSI_IGSM_NAMES] = {
    "northern", "southern", "eastern", "western", "upper",   "lower",  "old",     "new",
    "great",    "little",   "royal",   "hidden",  "ancient", "misty",  "golden",  "silent",
    "red",      "blue",     "green",   "yellow",  "white",   "black",  "grey",    "brown",
    "purple",   "orange",   "pink",    "silver",  "crimson", "amber",  "teal",    "ivory",
    "wide",     "narrow",   "tall",    "short",   "bright",  "dark",   "quiet",   "noisy",
    "warm",     "cool",     "dusty",   "clean",   "round",   "square", "open",    "closed",
    "small",    "large",    "heavy",   "light",   "smooth",  "rough",  "sweet",   "sour",
    "soft",     "hard",     "fresh",   "dry",     "wet",     "plain",  "striped", "spotted",
};

/* The index of a name is noun * names per list + quality; categories follow. */
int16_t kvsi_igsm_name(size_t chain, size_t category, size_t list, size_t name)
{
    const size_t noun = (chain * KVSI_IGSM_CATEGORIES + category) * KVSI_IGSM_LISTS + list;

    return (int16_t)(noun * KVSI_IGSM_NAMES + name);
}

int16_t kvsi_igsm_category(size_t chain, size_t category)
{
    return (int16_t)(KVSI_IGSM_OFFICIAL_NAMES + chain * KVSI_IGSM_CATEGORIES + category);
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

size_t kvsi_igsm_first_number(const kvsi_igsm_words *w)
{
    return w->wording == KVSI_IGSM_COMPACT ? W_COMMON : W_SENTENCE_WORDS;
}

static size_t letters_of(const kvsi_igsm_words *w)
{
    return w->mode == KVSI_IGSM_PAPER ? 26 : KVSI_IGSM_LETTERS;
}

size_t kvsi_igsm_first_letter(const kvsi_igsm_words *w)
{
    return kvsi_igsm_first_number(w) + KVSI_IGSM_MODULUS;
}

size_t kvsi_igsm_first_name(const kvsi_igsm_words *w)
{
    return kvsi_igsm_first_letter(w) + letters_of(w);
}

void kvsi_igsm_words_init(kvsi_igsm_words *w, const kvsi_igsm_config *config)
{
    *w = (kvsi_igsm_words){.mode = config->mode, .wording = config->wording};
    w->count =
        kvsi_igsm_first_name(w) + (w->mode == KVSI_IGSM_PAPER
                                       ? KVSI_IGSM_PLACES + KVSI_IGSM_PLACES * KVSI_IGSM_THINGS
                                       : KVSI_IGSM_OFFICIAL_CATEGORIES + KVSI_IGSM_OFFICIAL_NOUNS +
                                             KVSI_IGSM_OFFICIAL_QUALITIES);
}

/* The name at index `at` of the concatenated lists. */
static const char *name_at(const kvsi_igsm_words *w, size_t at)
{
    if (w->mode == KVSI_IGSM_PAPER)
        return at < KVSI_IGSM_PLACES ? paper_categories[at] : paper_items[at - KVSI_IGSM_PLACES];
    if (at < KVSI_IGSM_OFFICIAL_CATEGORIES)
        return official_categories[at];
    at -= KVSI_IGSM_OFFICIAL_CATEGORIES;
    return at < KVSI_IGSM_OFFICIAL_NOUNS ? official_nouns[at]
                                         : official_qualities[at - KVSI_IGSM_OFFICIAL_NOUNS];
}

void kvsi_igsm_word_text(const kvsi_igsm_words *w, size_t word, char *out, size_t size)
{
    const size_t number = kvsi_igsm_first_number(w), letter = kvsi_igsm_first_letter(w),
                 name = kvsi_igsm_first_name(w);

    if (word == W_END)
        snprintf(out, size, "%s", words[W_END]);
    else if (word == W_LINE || (word >= W_POINT && word <= W_QUESTION))
        snprintf(out, size, "%s", words[word]);
    else if (word < number)
        snprintf(out, size, " %s", words[word]);
    else if (word < letter)
        snprintf(out, size, " %zu", word - number);
    else if (word < name)
        snprintf(out, size, " %c",
                 (int)(word - letter < 26 ? 'a' + (word - letter) : 'A' + (word - letter - 26)));
    else
        snprintf(out, size, " %s", name_at(w, word - name));
}

int kvsi_igsm_word_find(const kvsi_igsm_words *w, const char *text)
{
    for (size_t word = 0; word < w->count; word++) {
        char known[32];

        kvsi_igsm_word_text(w, word, known, sizeof known);
        if (strcmp(known + (known[0] == ' '), text) == 0)
            return (int)word;
    }
    return -1;
}

int kvsi_igsm_read_number(const kvsi_igsm_words *w, uint16_t word)
{
    return word >= kvsi_igsm_first_number(w) && word < kvsi_igsm_first_letter(w)
               ? (int)(word - kvsi_igsm_first_number(w))
               : -1;
}

int kvsi_igsm_read_letter(const kvsi_igsm_words *w, uint16_t word)
{
    return word >= kvsi_igsm_first_letter(w) && word < kvsi_igsm_first_name(w)
               ? (int)(word - kvsi_igsm_first_letter(w))
               : -1;
}
