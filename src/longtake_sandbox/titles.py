"""The animation titles that Bangumi lists, and the shows that TMDB has for them.

A title's place determines everything about it, so that a larger catalogue begins with the smaller one, and every share
below holds in any part of it. Names are put together from words in Japanese, Chinese and English. No name contains
another, so a search for a whole name has one answer unless the title is meant to be ambiguous.
"""

from __future__ import annotations

import hashlib
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import accumulate, groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How many searches for parts of names are remembered.
REMEMBERED = 1024


class Names(NamedTuple):
    """The names of a title in three languages."""

    ja: str
    zh: str
    en: str


def _words(text: str) -> tuple[Names, ...]:
    return tuple(Names(*(part.replace("_", " ") for part in word.split("/"))) for word in text.split())


QUALITIES = _words(
    """
    蒼き/苍蓝的/Azure 紅の/绯红的/Crimson 黄金の/黄金的/Golden 白銀の/白银的/Silver 漆黒の/漆黑的/Pitch-Black
    翠緑の/翠绿的/Emerald 沈黙の/沉默的/Silent 永遠の/永恒的/Eternal 最後の/最后的/Last 最初の/最初的/First
    忘れられた/被遗忘的/Forgotten 迷える/迷途的/Wandering 眠れる/沉睡的/Sleeping 燃える/燃烧的/Burning
    凍てつく/冰冻的/Frozen 秘密の/秘密的/Secret 真夜中の/午夜的/Midnight 暁の/拂晓的/Daybreak 黄昏の/黄昏的/Twilight
    嵐の/暴风的/Stormy 硝子の/玻璃的/Glass 鋼鉄の/钢铁的/Steel 水晶の/水晶的/Crystal 星屑の/星尘的/Stardust
    月下の/月下的/Moonlit 春風の/春风的/Vernal 真夏の/盛夏的/Midsummer 秋雨の/秋雨的/Autumnal 冬空の/冬日的/Wintry
    放課後の/放学后的/After-School 笑わない/不笑的/Unsmiling 空飛ぶ/飞天的/Flying 小さな/小小的/Tiny
    偉大なる/伟大的/Great 無敵の/无敌的/Invincible 臆病な/胆小的/Timid 気まぐれな/任性的/Capricious
    優しい/温柔的/Gentle 孤独な/孤独的/Lonely 不思議な/不可思议的/Curious
    """
)
SUBJECTS = _words(
    """
    旅人/旅人/Traveller 魔女/魔女/Witch 騎士/骑士/Knight 姫君/公主/Princess 勇者/勇者/Hero 竜王/龙王/Dragon_King
    狼/狼/Wolf 狐/狐狸/Fox 黒猫/黑猫/Cat 鴉/乌鸦/Raven 鯨/鲸鱼/Whale 蝶/蝴蝶/Butterfly 人形師/人偶师/Dollmaker
    錬金術師/炼金术士/Alchemist 図書委員/图书委员/Librarian 料理人/厨师/Cook 航海士/航海士/Navigator
    操縦士/飞行员/Pilot 時計職人/钟表匠/Clockmaker 吸血鬼/吸血鬼/Vampire 幽霊/幽灵/Ghost 天使/天使/Angel
    悪魔/恶魔/Devil 歌姫/歌姬/Songstress 踊り子/舞者/Dancer 画家/画家/Painter 作曲家/作曲家/Composer
    棋士/棋士/Shogi_Player 剣豪/剑豪/Swordmaster 忍者/忍者/Ninja 巫女/巫女/Shrine_Maiden 陰陽師/阴阳师/Diviner
    海賊/海盗/Pirate 怪盗/怪盗/Phantom_Thief 名探偵/名侦探/Detective 転校生/转校生/Transfer_Student
    生徒会長/学生会长/President 幼馴染/青梅竹马/Childhood_Friend 魔法使い/魔法师/Wizard 機械人形/机械人偶/Automaton
    宇宙飛行士/宇航员/Astronaut 農夫/农夫/Farmer 薬師/药师/Apothecary 商人/商人/Merchant 門番/守门人/Gatekeeper
    郵便屋/邮差/Postman 花屋/花店/Florist 灯台守/灯塔守/Lighthouse_Keeper
    """
)
ENDINGS = _words(
    """
    物語/物语/Story 戦記/战记/War_Chronicle 日誌/日志/Diary 冒険譚/冒险谭/Adventure 学園/学园/Academy
    探偵団/侦探团/Detective_Club 協奏曲/协奏曲/Concerto 幻想曲/幻想曲/Fantasia 奇譚/奇谭/Mysteries
    黙示録/启示录/Apocalypse 同盟/同盟/Alliance 方程式/方程式/Equation 食堂/食堂/Diner 休暇/假期/Holiday
    """
)
COUNT = len(QUALITIES) * len(SUBJECTS) * len(ENDINGS)
#: Coprime to COUNT, so that its multiples reach every name once.
STRIDE = 10_007


def names(number: int, seed: int) -> Names:
    """Return the names of this number. Numbers that differ by less than COUNT have different names."""
    place = (number * STRIDE + seed * 7_919) % COUNT
    place, ending = divmod(place, len(ENDINGS))
    quality, subject = divmod(place, len(SUBJECTS))
    first, second, third = QUALITIES[quality], SUBJECTS[subject], ENDINGS[ending]
    return Names(
        f"{first.ja}{second.ja}{third.ja}", f"{first.zh}{second.zh}{third.zh}", f"{first.en} {second.en} {third.en}"
    )


def slightly_different(name: Names, number: int) -> str:
    """Return a variant spelling of the Japanese name, which neither equals nor contains it."""
    half = len(name.ja) // 2
    first, second = name.ja[:half], name.ja[half:]
    return f"{first}・{second}" if number % 2 else f"{first} {second}!"


def entirely_different(name: Names) -> str:
    """Return a unique name that is nothing like the Japanese one."""
    return f"{name.en.upper()} -THE ANIMATION-"


Kind = Literal[
    "exact",  # TMDB has the same original name in the same year
    "year",  # the same original name, in the year before or after
    "alias",  # another original name; ours is one of the alternative names
    "ambiguous",  # two shows of the same name and year
    "absent",  # not in TMDB
]
#: The kinds of twenty titles in a row.
KINDS: tuple[Kind, ...] = (
    *("exact",) * 7, "year", "alias", "ambiguous", *("exact",) * 7, "year", "alias", "absent",
)  # fmt: skip
FIRST_YEAR, LAST_YEAR = 1990, 2026
#: Coprime to the number of kinds, so that each year has titles of every kind.
YEARS = LAST_YEAR - FIRST_YEAR + 1
FIRST_BANGUMI_ID, FIRST_TMDB_ID, FIRST_NOISE_ID = 100_003, 60_000, 10_000
#: Further shows that TMDB has in each year; every fourth is not Japanese.
NOISE_OF_A_YEAR = 60
OTHER_LANGUAGES = ("zh", "ko", "en")
#: The calendar takes the newest years until it has enough titles, and cuts off the rest.
CALENDAR_LEAST, CALENDAR_MOST = 40, 60


@dataclass(frozen=True, slots=True)
class Show:
    """A show in TMDB."""

    id: int
    #: The English and Chinese names are translations; the Japanese one need not be the original.
    names: Names
    original_name: str
    original_language: str
    first_air_date: date
    #: Empty if it has no poster.
    poster_file: str
    alternative_names: tuple[str, ...] = ()
    #: The title whose cover changes together with this poster; 0 for none.
    bangumi_id: int = 0

    @property
    def popularity(self) -> float:
        """Return an arbitrary figure, so that lists are not in the order of ids."""
        return self.id * 7_919 % 100_003 / 100

    def all_names(self) -> set[str]:
        """Return every name that a search finds it by, normalised."""
        found = (self.original_name, self.names.en, self.names.zh, *self.alternative_names)
        return {normalised(name) for name in found}


class Shows:
    """All shows. Every list is in the order of popularity."""

    def __init__(self, shows: Iterable[Show]) -> None:
        ordered = sorted(shows, key=_by_popularity)
        self.by_id = {show.id: show for show in ordered}
        self.by_poster = {show.poster_file: show for show in ordered if show.poster_file}
        self._by_name: dict[str, list[Show]] = {}
        self._groups: dict[tuple[str, str], list[Show]] = {}
        for show in ordered:
            for name in show.all_names():
                self._by_name.setdefault(name, []).append(show)
            for language in ("", show.original_language):
                for year in ("", str(show.first_air_date.year)):
                    self._groups.setdefault((language, year), []).append(show)
        # All names in one string: searching it is much faster than searching a list of names.
        self._names = list(self._by_name)
        self._text = "\n".join(self._names)
        self._starts = [0, *accumulate(len(name) + 1 for name in self._names)]
        self._containing = lru_cache(REMEMBERED)(self._find_containing)

    def discover(self, language: str = "", year: str = "") -> list[Show]:
        """Return the shows of a language and a year. An empty string means any."""
        return self._groups.get((language, year), [])

    def search(self, query: str, year: str = "") -> list[Show]:
        """Return the shows with this name, or else those with a name that contains it."""
        name = normalised(query)
        if not name:
            return []
        found = self._by_name.get(name) or self._containing(name)
        return [show for show in found if not year or str(show.first_air_date.year) == year]

    def _find_containing(self, part: str) -> list[Show]:
        numbers = {show.id for name in self._names_with(part) for show in self._by_name[name]}
        return sorted((self.by_id[number] for number in numbers), key=_by_popularity)

    def _names_with(self, part: str) -> Iterable[str]:
        at = self._text.find(part)
        while at >= 0:
            place = bisect_right(self._starts, at) - 1
            yield self._names[place]
            at = self._text.find(part, self._starts[place] + len(self._names[place]))


def _by_popularity(show: Show) -> tuple[float, int]:
    return -show.popularity, show.id


def normalised(name: str) -> str:
    """Return the name without differences in case, width and spacing."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


@dataclass(frozen=True, slots=True)
class Title:
    """A title in Bangumi, and the shows in TMDB that it may be."""

    place: int
    bangumi_id: int
    names: Names
    air_date: date
    #: The part of the cover's URL that all sizes share.
    cover_file: str
    kind: Kind
    tmdb_ids: tuple[int, ...]

    @property
    def tmdb_id(self) -> int | None:
        """Return the show it is; None if there is none, or more than one."""
        return self.tmdb_ids[0] if len(self.tmdb_ids) == 1 else None


class Catalogue:
    """All titles in the order of their ids, and all shows."""

    def __init__(self, titles: list[Title], shows: Shows) -> None:
        self.titles = titles
        self.shows = shows
        self.by_id = {title.bangumi_id: title for title in titles}
        self.by_cover = {title.cover_file: title for title in titles}
        self.calendar = _calendar(titles)

    def after(self, bangumi_id: int, limit: int | None) -> list[Title]:
        start = bisect_right(self.titles, bangumi_id, key=lambda title: title.bangumi_id)
        return self.titles[start : None if limit is None else start + limit]


def make_catalogue(count: int, seed: int) -> Catalogue:
    """Generate `count` titles, their shows, and shows without a title."""
    titles, shows = [], []
    for place in range(count):
        title, its_shows = _title(place, seed)
        titles.append(title)
        shows += its_shows
    shows += [_noise(number, seed) for number in range(NOISE_OF_A_YEAR * YEARS)]
    return Catalogue(titles, Shows(shows))


def _title(place: int, seed: int) -> tuple[Title, list[Show]]:
    kind, called = KINDS[place % len(KINDS)], names(place, seed)
    year = FIRST_YEAR + place % YEARS
    air_date = _day(year, place)
    token = _token("cover", place, seed)
    bangumi_id = FIRST_BANGUMI_ID + 7 * place
    cover_file = f"{token[0:2]}/{token[2:4]}/{bangumi_id}_{token[4:9]}.jpg"
    shows = [] if kind == "absent" else [_show(place, seed, kind, bangumi_id, air_date)]
    if kind == "ambiguous":
        shows.append(_show(place, seed, kind, bangumi_id, air_date, second=1))
    ids = tuple(show.id for show in shows)
    return Title(place, bangumi_id, called, air_date, cover_file, kind, ids), shows


def _show(place: int, seed: int, kind: Kind, bangumi_id: int, air_date: date, second: int = 0) -> Show:
    """Return TMDB's show for a title; an ambiguous title has a second one."""
    called = names(place, seed)
    original, day = called.ja, air_date
    alternative: tuple[str, ...] = ()
    if kind == "alias":
        slightly = place // len(KINDS) % 2 == 0
        original = slightly_different(called, place // len(KINDS) // 2) if slightly else entirely_different(called)
        alternative = (called.ja,)
    elif kind == "year":
        year = air_date.year - 1 if place // len(KINDS) % 2 or air_date.year == LAST_YEAR else air_date.year + 1
        day = air_date.replace(year=year)
    elif second:
        day = _day(air_date.year, place + 1)
    number = FIRST_TMDB_ID + 3 * place + second
    poster = f"{_token('poster', number, seed)}.jpg"
    return Show(number, called, original, "ja", day, poster, alternative, bangumi_id)


def _noise(number: int, seed: int) -> Show:
    """Return a show without a title. Its names come from the far end of the numbers, which titles do not reach."""
    called = names(COUNT - 1 - number, seed)
    language = "ja" if number % 4 else OTHER_LANGUAGES[number // 4 % len(OTHER_LANGUAGES)]
    original = {"ja": called.ja, "zh": called.zh}.get(language, called.en)
    # A few have no poster.
    poster = "" if number % 10 == 0 else f"{_token('noise', number, seed)}.jpg"
    day = _day(FIRST_YEAR + number % YEARS, number)
    return Show(FIRST_NOISE_ID + number, called, original, language, day, poster)


def _calendar(titles: list[Title]) -> list[Title]:
    newest = sorted(titles, key=lambda title: (-title.air_date.year, title.place))
    shown: list[Title] = []
    for _year, of_year in groupby(newest, key=lambda title: title.air_date.year):
        if len(shown) < CALENDAR_LEAST:
            shown += of_year
    return shown[:CALENDAR_MOST]


def _day(year: int, place: int) -> date:
    """Return a day that exists in every year."""
    return date(year, 1 + place * 5 % 12, 1 + place * 11 % 28)


def _token(of: str, place: int, seed: int) -> str:
    return hashlib.blake2s(f"{of}/{place}/{seed}".encode(), digest_size=10).hexdigest()
